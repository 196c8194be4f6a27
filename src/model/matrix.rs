//! A weight matrix as the plan sees it: rows that may come from several tensors of one type, in an
//! order of our choosing. Rows are never changed, only picked, so any quantised type can be stacked.

use std::ops::Range;
use std::sync::Arc;

use crate::gguf::{Gguf, TensorInfo};
use crate::quant::{self, QuantType};
use crate::{Error, Result};

/// How rows of the parts follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All rows of the first part, then of the next.
    Stacked,
    /// Row 2i from the first part, row 2i + 1 from the second (gate and up of an FFN).
    Interleaved,
}

/// Puts neighbouring rotary pairs (2i, 2i+1) of each head into halves (i, i + rot/2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpair {
    /// Rows per head.
    pub head_dim: usize,
    /// Rotated rows per head.
    pub rot: usize,
}

impl Unpair {
    /// The row of the file that becomes row `r`.
    pub fn source(self, r: usize) -> usize {
        let (head, d) = (r / self.head_dim * self.head_dim, r % self.head_dim);
        let half = self.rot / 2;
        head + match d {
            d if d < half => 2 * d,
            d if d < self.rot => 2 * (d - half) + 1,
            d => d,
        }
    }
}

/// One tensor of the file inside a matrix.
#[derive(Clone)]
pub struct Part {
    tensor: usize,
    rows: usize,
    unpair: Option<Unpair>,
}

/// Rows of a matrix as they were read from its file; to be used again for the next ones.
#[derive(Default)]
pub struct RowBytes {
    /// Bytes of a row.
    row: usize,
    /// Per part of the matrix: the first row that is here, and the rows' bytes.
    parts: Vec<(usize, Vec<u8>)>,
}

/// A matrix of `rows` rows of `k` weights of one type.
#[derive(Clone)]
pub struct Matrix {
    /// GGUF's name without `.weight`; stacked parts are joined: `blk.0.attn_q+k+v`.
    pub label: String,
    /// The weight type.
    pub ty: &'static QuantType,
    /// Weights per row.
    pub k: usize,
    /// Rows of all parts.
    pub rows: usize,
    order: Order,
    parts: Vec<Part>,
    gguf: Gguf,
}

impl Matrix {
    /// The matrix `name` of `rows` rows of `k` weights, checked against the file.
    pub fn find(g: &Gguf, name: &str, k: u32, rows: u32, unpair: Option<Unpair>) -> Result<Matrix> {
        let t = g.tensor(name, &[u64::from(k), u64::from(rows)])?;
        let ty = type_of(g, t)?;
        let tensor = g
            .tensors()
            .iter()
            .position(|i| std::ptr::eq(i, t))
            .unwrap_or(0);
        Ok(Matrix {
            label: name.trim_end_matches(".weight").to_string(),
            ty,
            k: k as usize,
            rows: rows as usize,
            order: Order::Stacked,
            parts: vec![Part {
                tensor,
                rows: rows as usize,
                unpair,
            }],
            gguf: g.clone(),
        })
    }

    /// Joins matrices of one type and row length into one.
    pub fn join(label: String, order: Order, all: Vec<Matrix>) -> Matrix {
        let first = &all[0];
        assert!(
            all.iter()
                .all(|m| std::ptr::eq(m.ty, first.ty) && m.k == first.k)
        );
        assert!(order == Order::Stacked || (all.len() == 2 && all[0].rows == all[1].rows));
        Matrix {
            label,
            ty: first.ty,
            k: first.k,
            rows: all.iter().map(|m| m.rows).sum(),
            order,
            gguf: first.gguf.clone(),
            parts: all.into_iter().flat_map(|m| m.parts).collect(),
        }
    }

    /// The bytes of row `r` as the file has them.
    pub fn row(&self, r: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let (part, r) = self.place(r);
        let t = self.info(&self.parts[part]);
        self.gguf.rows(t, r..r + 1, &mut out)?;
        Ok(out)
    }

    /// The part that row `r` comes from, and its row in that tensor.
    fn place(&self, r: usize) -> (usize, usize) {
        let (part, r) = match self.order {
            Order::Interleaved => (r % 2, r / 2),
            Order::Stacked => self.stacked(r),
        };
        (part, self.parts[part].unpair.map_or(r, |u| u.source(r)))
    }

    /// Reads rows from the file, each part's in one go.
    pub fn read(&self, rows: Range<usize>, into: &mut RowBytes) -> Result<()> {
        into.row = self.ty.row_bytes(self.k);
        into.parts.resize_with(self.parts.len(), Default::default);
        let mut before = 0;
        for (i, (p, (first, bytes))) in self.parts.iter().zip(&mut into.parts).enumerate() {
            // Of neighbouring rows every second one is this part's.
            let of = |r: usize| match self.order {
                Order::Interleaved => (r + 1 - i) / 2,
                Order::Stacked => r.saturating_sub(before).min(p.rows),
            };
            let (mut start, mut end) = (of(rows.start), of(rows.end));
            before += p.rows;
            if let Some(u) = p.unpair.filter(|_| start < end) {
                // Rows change places within their head.
                start = start / u.head_dim * u.head_dim;
                end = end.next_multiple_of(u.head_dim).min(p.rows);
            }
            *first = start;
            self.gguf.rows(self.info(p), start..end, bytes)?;
        }
        Ok(())
    }

    /// The bytes of row `r` out of rows that were read.
    fn row_of<'r>(&self, r: usize, read: &'r RowBytes) -> &'r [u8] {
        let (part, r) = self.place(r);
        let (first, bytes) = &read.parts[part];
        &bytes[(r - first) * read.row..][..read.row]
    }

    /// The part that row `r` of stacked parts belongs to, and its row there.
    fn stacked(&self, mut r: usize) -> (usize, usize) {
        let part = self.parts.iter().position(|p| {
            let here = r < p.rows;
            if !here {
                r -= p.rows;
            }
            here
        });
        let part = part.unwrap_or_else(|| panic!("row past the end of {}", self.label));
        (part, r)
    }

    fn info(&self, part: &Part) -> &TensorInfo {
        &self.gguf.tensors()[part.tensor]
    }

    /// For a matrix whose rows repeat, as those of no file do: the rows after which they do, and the
    /// row up to which they do, from row `first` on.
    pub fn period(&self, first: usize) -> Option<(usize, usize)> {
        let of = |part: &Part| {
            let period = self.info(part).period()?;
            // Rotary rows change places within their head.
            let heads = part.unpair.map_or(1, |u| u.head_dim);
            Some(common_multiple(period, heads))
        };
        match self.order {
            Order::Interleaved => {
                let (a, b) = (of(&self.parts[0])?, of(&self.parts[1])?);
                Some((2 * common_multiple(a, b), self.rows))
            }
            Order::Stacked => {
                self.parts.iter().find_map(of)?;
                let (part, r) = self.stacked(first);
                let part = &self.parts[part];
                Some((of(part).unwrap_or(part.rows), first - r + part.rows))
            }
        }
    }

    /// Row `r` as exact f32 values.
    pub fn decode_row(&self, r: usize, out: &mut Vec<f32>) -> Result<()> {
        out.resize(self.k, 0.0);
        (self.ty.decode)(&self.row(r)?, out);
        Ok(())
    }

    /// Repacks row `r` out of rows that were read; its multiplier. A row that holds numbers that are none
    /// is an error.
    pub fn repack_row(&self, r: usize, read: &RowBytes, out: &mut [u32]) -> Result<f32> {
        let multiplier = (self.ty.repack)(self.row_of(r, read), self.k, out);
        if multiplier.is_nan() {
            let (part, r) = self.place(r);
            return Err(not_finite(
                &self.gguf,
                &self.info(&self.parts[part]).name,
                r,
            ));
        }
        Ok(multiplier)
    }

    /// Repacks rows `first..first + n` one after the other into `out`, and their multipliers.
    pub fn repack(
        &self,
        first: usize,
        read: &RowBytes,
        out: &mut [u32],
        mult: &mut [f32],
    ) -> Result<()> {
        let records = out.chunks_exact_mut(4 * self.row_vec4s());
        for ((r, out), mult) in (first..).zip(records).zip(mult) {
            *mult = self.repack_row(r, read, out)?;
        }
        Ok(())
    }

    /// Repacks up to [`TILE_ROWS`] rows as a tile of `slots/weights_texture.wgsl`: word `i` of all rows,
    /// then word `i + 1`; rows that are not there are zero.
    pub fn repack_tile(
        &self,
        first: usize,
        read: &RowBytes,
        out: &mut [u32],
        mult: &mut [f32],
    ) -> Result<()> {
        let words = self.row_vec4s();
        let mut record = vec![0; 4 * words];
        if mult.len() < TILE_ROWS {
            out.fill(0);
        }
        for (r, mult) in mult.iter_mut().enumerate() {
            *mult = self.repack_row(first + r, read, &mut record)?;
            let place = r % 4 * 8 + r / 4;
            for (i, word) in record.chunks_exact(4).enumerate() {
                out[4 * (TILE_ROWS * i + place)..][..4].copy_from_slice(word);
            }
        }
        Ok(())
    }

    /// Bytes of all rows in the file.
    pub fn file_bytes(&self) -> u64 {
        self.rows as u64 * (self.k / self.ty.block * self.ty.bytes) as u64
    }

    /// 16-byte words of one repacked row.
    pub fn row_vec4s(&self) -> usize {
        (self.ty.row_vec4s)(self.k)
    }
}

/// Rows of a tile of the layout for textures.
pub const TILE_ROWS: usize = 32;

fn common_multiple(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

fn not_finite(g: &Gguf, tensor: &str, row: usize) -> Error {
    Error::WeightNotFinite {
        path: g.path().to_path_buf(),
        tensor: tensor.to_owned(),
        row,
    }
}

/// A vector of `n` numbers of any type we can decode; all of them are finite.
pub fn vector(g: &Gguf, name: &str, n: u32) -> Result<Vec<f32>> {
    let t = g.tensor(name, &[u64::from(n)])?;
    let ty = type_of(g, t)?;
    let mut out = vec![0.0; n as usize];
    (ty.decode)(&g.data(t)?, &mut out);
    match out.iter().all(|v| v.is_finite()) {
        true => Ok(out),
        false => Err(not_finite(g, name, 0)),
    }
}

fn type_of(g: &Gguf, t: &TensorInfo) -> Result<&'static QuantType> {
    quant::by_id(t.ty.id).ok_or_else(|| Error::TensorTypeUnsupported {
        path: g.path().to_path_buf(),
        tensor: t.name.clone(),
        ty: t.ty.name,
        known: quant::ALL.iter().map(|t| t.name).collect(),
    })
}

/// Matrices are shared between the plan, the uploader and the CPU twins.
pub type SharedMatrix = Arc<Matrix>;

#[cfg(test)]
mod tests {
    use super::Unpair;

    #[test]
    fn unpair_is_a_permutation_that_moves_pairs_into_halves() {
        let u = Unpair {
            head_dim: 6,
            rot: 4,
        };
        let got: Vec<usize> = (0..12).map(|r| u.source(r)).collect();
        assert_eq!(got, [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]);
    }
}
