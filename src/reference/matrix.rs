//! Twins of the kernels that read weights: get_rows and the matrix products.

use super::norm::{gelu, inverse_root, silu};
use super::{Binds, column, params};
use crate::kernel::params::{GetRows, MatVec, Mode};
use rayon::prelude::*;

/// `out[c, :] = scale * W[token of column c]` where that row lies in this shard, zero padded.
pub fn get_rows(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: GetRows = params(bytes);
    let (w, cols, mut out) = (b.matrix("w"), b.u32("cols"), b.f32_mut("out"));
    let mut row = Vec::new();
    for c in 0..grid[1] as usize {
        let token = column(&cols, c)[0];
        if token < p.row0 || token - p.row0 >= p.rows {
            continue;
        }
        w.row((token - p.row0) as usize, &mut row);
        row.resize(32 * p.nb as usize, 0.0);
        for (o, v) in out[4 * p.out_stride as usize * c..].iter_mut().zip(&row) {
            *o = (p.scale as f64 * *v as f64) as f32;
        }
        if b.has("hn") {
            let at = 4 * p.out_stride as usize * c;
            let done = MatVec {
                rows: 32 * p.nb,
                part_rows: 32,
                parts: p.parts,
                n_cols: 1,
                norm_n: 32 * p.nb,
                ..Default::default()
            };
            begin_norm(&done, &out[at..], c, at, b);
        }
    }
}

/// `y[c, r] = sum_k W[r, k] x[c, k]` for `n_cols` columns, then the epilogue of `mode`.
pub fn matvec(bytes: &[u8], _grid: [u32; 3], b: &mut Binds) {
    product(params(bytes), "w", b);
}

/// The same for two matrices.
pub fn matvec2(bytes: &[u8], _grid: [u32; 3], b: &mut Binds) {
    let p: MatVec = params(bytes);
    let (rows, out_row) = (p.rows2, p.out_row2);
    product(p, "w", b);
    product(MatVec { rows, out_row, ..p }, "w2", b);
}

fn product(p: MatVec, matrix: &str, b: &mut Binds) {
    let (w, x, mut out) = (b.matrix(matrix), b.f32("x"), b.f32_mut("out"));
    let x = &*x;
    // Slot scale = norm: the root that the norm of x still lacks.
    let stride = 4 * p.parts.next_multiple_of(16) as usize;
    let root = |c: usize| match b.has("sums") {
        true => {
            let sums = b.f32("sums");
            let parts = &sums[c * stride..][..4 * p.parts as usize];
            let mean = parts.iter().map(|s| *s as f64).sum::<f64>() / p.norm_n as f64;
            inverse_root(mean, p.eps)
        }
        false => 1.0,
    };
    let roots: Vec<f64> = (0..p.n_cols as usize).map(root).collect();
    let (n_cols, x_stride) = (p.n_cols as usize, 4 * p.x_stride as usize);
    let dots = |r: usize, row: &mut Vec<f32>| -> Vec<f64> {
        w.row(r, row);
        let dot = |c| {
            row.iter()
                .zip(&x[c * x_stride..])
                .map(|(a, b)| *a as f64 * *b as f64)
                .sum::<f64>()
                * roots[c]
        };
        (0..n_cols).map(dot).collect()
    };
    let y: Vec<Vec<f64>> = (0..p.rows as usize)
        .into_par_iter()
        .map_init(Vec::new, |row, r| dots(r, row))
        .collect();
    for c in 0..n_cols {
        let out = &mut out[c * p.out_stride as usize..];
        if p.mode == Mode::Silu as u32 || p.mode == Mode::Gelu as u32 {
            let act = if p.mode == Mode::Silu as u32 {
                silu
            } else {
                gelu
            };
            for r in (0..y.len()).step_by(2) {
                out[(p.out_row as usize + r) / 2] = (act(y[r][c]) * y[r + 1][c]) as f32;
            }
            continue;
        }
        for (o, y) in out[p.out_row as usize..].iter_mut().zip(&y) {
            let cap = p.softcap as f64;
            *o = if p.mode == Mode::Add as u32 {
                (*o as f64 + y[c]) as f32
            } else if cap > 0.0 && (y[c] as f32).is_finite() {
                (cap * (y[c] / cap).tanh()) as f32
            } else {
                y[c] as f32
            };
        }
    }
    if b.has("hn") {
        begin_norm(&p, &out, 0, 0, b);
    }
}

/// Slots sink = norm and embed = norm: `hn = out * gain` and partial sums of squares of the columns from
/// `first` on, `hn` from `at` on.
fn begin_norm(p: &MatVec, out: &[f32], first: usize, at: usize, b: &Binds) {
    let (mut hn, gain) = (b.f32_mut("hn"), b.f32("gain"));
    let mut sums = b.f32_mut("sums_out");
    let stride = 4 * p.parts.next_multiple_of(16) as usize;
    for c in 0..p.n_cols as usize {
        let mut squares = std::collections::BTreeMap::new();
        for r in p.out_row as usize..(p.out_row + p.rows) as usize {
            let i = c * p.out_stride as usize + r;
            hn[at + i] = (out[i] as f64 * gain[r] as f64) as f32;
            *squares.entry(r / p.part_rows as usize).or_insert(0.0) += (out[i] as f64).powi(2);
        }
        for (part, sum) in squares {
            sums[(first + c) * stride + part] = sum as f32;
            if part == (p.norm_n as usize).saturating_sub(1) / p.part_rows as usize {
                sums[(first + c) * stride..][part + 1..4 * p.parts as usize].fill(0.0);
            }
        }
    }
}

/// Like [`matvec`], but the grid says how many of the columns are done, 32 at a time.
pub fn matmul(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let mut p: MatVec = params(bytes);
    p.n_cols = p.n_cols.min(32 * grid[1]);
    matvec(bytemuck::bytes_of(&p), grid, b);
}

#[cfg(test)]
mod tests {
    use super::super::{Data, Rows, twin};
    use super::*;
    use bytemuck::bytes_of;
    use std::sync::Arc;

    struct Plain(Vec<Vec<f32>>);

    impl Rows for Plain {
        fn rows(&self) -> usize {
            self.0.len()
        }
        fn row(&self, r: usize, out: &mut Vec<f32>) {
            out.clone_from(&self.0[r]);
        }
    }

    /// Two columns of x, padded to 32, times a matrix of four rows of two, onto `out` = 1.
    fn product(mode: Mode, softcap: f32) -> Vec<f32> {
        let w = Plain(vec![
            vec![1.0, 2.0],
            vec![3.0, 4.0],
            vec![-1.0, 0.0],
            vec![0.5, 0.5],
        ]);
        let mut x = vec![9.0; 64]; // what lies beyond k is not read
        x[..2].copy_from_slice(&[1.0, 1.0]);
        x[32..34].copy_from_slice(&[2.0, -1.0]);
        let mut store = vec![
            Data::Matrix(Arc::new(w)),
            Data::F32(x),
            Data::F32(vec![1.0; 10]),
        ];
        let p = MatVec {
            nb: 1,
            rows: 4,
            out_row: 0,
            x_stride: 8,
            out_stride: 5,
            n_cols: 2,
            mode: mode as u32,
            softcap,
            ..Default::default()
        };
        twin("matmul")(
            bytes_of(&p),
            [1, 1, 1],
            &mut Binds::new(&mut store, &[("w", 0, 0), ("x", 1, 0), ("out", 2, 0)]),
        );
        let Data::F32(out) = store.pop().unwrap() else {
            panic!()
        };
        out
    }

    #[test]
    fn products() {
        let y = [3.0, 7.0, -1.0, 1.0, 1.0, 0.0, 2.0, -2.0, 0.5, 1.0];
        assert_eq!(product(Mode::Store, 0.0), y);
        let added: Vec<f32> = (0..10)
            .map(|i| if i % 5 == 4 { 1.0 } else { y[i] + 1.0 })
            .collect();
        assert_eq!(product(Mode::Add, 0.0), added);
        assert_eq!(product(Mode::Store, 2.0)[1], 2.0 * 3.5f64.tanh() as f32);
        let out = product(Mode::Silu, 0.0);
        assert_eq!(out[0], (7.0 * 3.0 / (1.0 + (-3.0f64).exp())) as f32);
        assert_eq!(out[6], (-0.5 * 2.0 / (1.0 + 2.0f64.exp())) as f32);
        assert_eq!(out[2], 1.0);
    }

    #[test]
    fn rows_of_a_shard() {
        let w = Plain(vec![vec![1.0, 2.0], vec![3.0, 4.0]]);
        let cols = vec![3, 2, 0, 0, 10, 0, 0, 1, 9, 0, 0, 1, 11, 0, 0, 1]; // header, tokens 10, 9, 11
        let mut store = vec![
            Data::Matrix(Arc::new(w)),
            Data::U32(cols),
            Data::F32(vec![7.0; 96]),
        ];
        let p = GetRows {
            nb: 1,
            rows: 2,
            row0: 10,
            out_stride: 8,
            scale: 2.0,
            ..Default::default()
        };
        get_rows(
            bytes_of(&p),
            [1, 3, 1],
            &mut Binds::new(&mut store, &[("w", 0, 0), ("cols", 1, 0), ("out", 2, 0)]),
        );
        let Data::F32(out) = &store[2] else { panic!() };
        assert_eq!(out[..3], [2.0, 4.0, 0.0]);
        assert_eq!(out[32..64], [7.0; 32]); // token 9 lies in another shard
        assert_eq!(out[64..67], [6.0, 8.0, 0.0]);
    }
}
