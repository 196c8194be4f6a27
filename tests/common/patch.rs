//! Model files with some of their weights or metadata changed.

#![allow(dead_code)] // no test file needs all of it

use std::path::Path;
use tokstep::gguf::{Gguf, NewTensor, TensorInfo, Value, header};

/// The bytes of the file at `path` with its metadata and each tensor's bytes as the two functions leave
/// them.
pub fn file(
    path: &Path,
    meta: impl FnOnce(&mut Vec<(String, Value)>),
    mut weights: impl FnMut(&TensorInfo, &mut Vec<u8>),
) -> Vec<u8> {
    let g = Gguf::open(path).unwrap();
    let mut keys = g.meta().to_vec();
    meta(&mut keys);
    let tensors: Vec<NewTensor> = g
        .tensors()
        .iter()
        .map(|t| NewTensor {
            name: t.name.clone(),
            shape: t.shape.clone(),
            ty: t.ty,
        })
        .collect();
    let mut out = header(&keys, &tensors);
    for t in g.tensors() {
        let mut data = g.data(t).unwrap();
        weights(t, &mut data);
        out.extend(data);
        out.resize(out.len().next_multiple_of(32), 0);
    }
    out
}

/// Replaces or adds a key.
pub fn set(keys: &mut Vec<(String, Value)>, key: &str, value: Value) {
    keys.retain(|(k, _)| k != key);
    keys.push((key.into(), value));
}

/// Multiplies the f32 weights of a tensor so that the largest becomes this large.
pub fn scale(data: &mut [u8], largest: f32) {
    let w = data
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    let by = f64::from(largest) / f64::from(w.fold(0f32, |a, w| a.max(w.abs())));
    for b in data.chunks_exact_mut(4) {
        let w = f64::from(f32::from_le_bytes(b.try_into().unwrap())) * by;
        b.copy_from_slice(&(w as f32).to_le_bytes());
    }
}
