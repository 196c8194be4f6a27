//! Buffers as twins see them: flat words, looked up by binding name.

use std::cell::{Ref, RefCell, RefMut};
use std::sync::Arc;

/// Exact rows of one shard of a weight matrix, dequantised from the file's bytes.
pub trait Rows {
    /// Rows of this shard.
    fn rows(&self) -> usize;
    /// Replaces `out` with row `r` of this shard: k weights.
    fn row(&self, r: usize, out: &mut Vec<f32>);
}

/// One buffer. Numbers may be read as either type: both are 4-byte words.
pub enum Data {
    /// Words that are mostly floats.
    F32(Vec<f32>),
    /// Words that are mostly integers.
    U32(Vec<u32>),
    /// A weight shard, read only.
    Matrix(Arc<dyn Rows + Send + Sync>),
}

impl Default for Data {
    fn default() -> Self {
        Data::U32(Vec::new())
    }
}

impl Data {
    fn f32(&self) -> &[f32] {
        match self {
            Data::F32(v) => v,
            Data::U32(v) => bytemuck::cast_slice(v),
            Data::Matrix(_) => panic!("a matrix has no words"),
        }
    }

    fn f32_mut(&mut self) -> &mut [f32] {
        match self {
            Data::F32(v) => v,
            Data::U32(v) => bytemuck::cast_slice_mut(v),
            Data::Matrix(_) => panic!("a matrix has no words"),
        }
    }
}

/// The buffers of one step. They are moved out of the store and go back when this is dropped. A
/// buffer may be bound several times for reading; one that is written must be bound once.
pub struct Binds<'a> {
    store: &'a mut [Data],
    held: Vec<(usize, RefCell<Data>)>,
    names: Vec<(&'a str, usize, usize)>, // name, index in `held`, first word
}

impl<'a> Binds<'a> {
    /// Binds (name, index in `store`, offset in 4-byte words).
    pub fn new(store: &'a mut [Data], list: &[(&'a str, usize, usize)]) -> Self {
        let mut held: Vec<(usize, RefCell<Data>)> = Vec::new();
        let mut names = Vec::new();
        for &(name, buffer, offset) in list {
            let at = held
                .iter()
                .position(|(b, _)| *b == buffer)
                .unwrap_or_else(|| {
                    held.push((buffer, RefCell::new(std::mem::take(&mut store[buffer]))));
                    held.len() - 1
                });
            names.push((name, at, offset));
        }
        Binds { store, held, names }
    }

    fn find(&self, name: &str) -> (&RefCell<Data>, usize) {
        let bind = self.names.iter().find(|(n, ..)| *n == name);
        let &(_, at, offset) = bind.unwrap_or_else(|| panic!("nothing bound to {name}"));
        (&self.held[at].1, offset)
    }

    /// Whether there is such a binding; some depend on a shader's slots.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(n, ..)| *n == name)
    }

    /// The words from the binding's offset on, as floats.
    pub fn f32(&self, name: &str) -> Ref<'_, [f32]> {
        let (data, offset) = self.find(name);
        Ref::map(data.borrow(), |d| &d.f32()[offset..])
    }

    /// The words from the binding's offset on, as integers.
    pub fn u32(&self, name: &str) -> Ref<'_, [u32]> {
        Ref::map(self.f32(name), bytemuck::cast_slice)
    }

    /// Like [`Self::f32`], to write.
    pub fn f32_mut(&self, name: &str) -> RefMut<'_, [f32]> {
        let (data, offset) = self.find(name);
        RefMut::map(data.borrow_mut(), |d| &mut d.f32_mut()[offset..])
    }

    /// Like [`Self::u32`], to write.
    pub fn u32_mut(&self, name: &str) -> RefMut<'_, [u32]> {
        RefMut::map(self.f32_mut(name), bytemuck::cast_slice_mut)
    }

    /// The weight shard bound to `name`.
    pub fn matrix(&self, name: &str) -> Arc<dyn Rows + Send + Sync> {
        match &*self.find(name).0.borrow() {
            Data::Matrix(m) => m.clone(),
            _ => panic!("{name} is no matrix"),
        }
    }
}

impl Drop for Binds<'_> {
    fn drop(&mut self) {
        for (buffer, data) in self.held.drain(..) {
            self.store[buffer] = data.into_inner();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_shared_reads_and_return_to_the_store() {
        let mut store = vec![Data::F32(vec![1.0, 2.0, 3.0]), Data::U32(vec![0; 2])];
        {
            let b = Binds::new(&mut store, &[("x", 0, 0), ("y", 0, 2), ("out", 1, 1)]);
            let (x, y) = (b.f32("x"), b.f32("y"));
            b.f32_mut("out")[0] = x[1] + y[0];
        }
        assert_eq!(store[0].f32(), [1.0, 2.0, 3.0]);
        assert_eq!(store[1].f32(), [0.0, 5.0]);
    }

    #[test]
    #[should_panic(expected = "borrowed")]
    fn a_written_buffer_is_bound_once() {
        let mut store = vec![Data::F32(vec![1.0])];
        let b = Binds::new(&mut store, &[("x", 0, 0), ("out", 0, 0)]);
        let _x = b.f32("x");
        b.f32_mut("out")[0] = 1.0;
    }
}
