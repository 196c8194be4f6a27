//! Cases of `matvec2` and `matvec_rows2`: two matrices of different types times the same activations.

use super::case::{Case, POISON, bind, bind_guarded};
use super::cases::{ROWS, lengths};
use super::make::{Activations, activations, cut, poison, sums, variant};
use super::noise::Rng;
use super::weights;
use crate::kernel::{Caps, params};
use crate::plan::build::{mult_at, shard};
use crate::plan::pair::pair;
use crate::plan::product::{self, Ends, X};
use crate::plan::sizes::stride;
use crate::quant;

/// `out = [W1 x, gap, W2 x]`.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub kernel: &'static str,
    pub types: [&'static str; 2],
    pub rows: [usize; 2],
    pub k: usize,
    /// Columns in one pass, 1 to 16.
    pub columns: u32,
    pub n_cols: u32,
    /// Rows of the output between the two results, which stay as they are.
    pub gap: u32,
    pub shared: bool,
    pub x: X,
    /// The root of a norm before.
    pub scale: bool,
    /// Largest grid dimension; beyond it workgroups go to another dimension.
    pub max_grid: u32,
    /// Columns outside the batch hold NaN instead of numbers.
    pub nan: bool,
    /// Lanes of a workgroup; 0: as is usual.
    pub lanes: u32,
    /// Weights as textures.
    pub texture: bool,
}

/// Each type once as the first and once as the second of a pair, by turns in either kernel, which compile
/// long; more columns for one pair. Row counts of both that do not fit workgroups.
pub fn pairs() -> Vec<Pair> {
    let n = quant::ALL.len();
    let name = |i: usize| quant::ALL[i % n].name;
    let each = (0..n).map(|i| {
        (
            ["matvec2", "matvec_rows2"][i % 2],
            [name(i), name(i + 5)],
            1,
        )
    });
    let wide = [("matvec2", 4), ("matvec_rows2", 3), ("matvec_rows2", 16)];
    let wide = wide.map(|(kernel, columns)| (kernel, ["Q4_K", "Q6_K"], columns));
    let mut all = Vec::new();
    for (i, (kernel, types, columns)) in each.chain(wide).enumerate() {
        let lanes = kernel == "matvec_rows2";
        let base = Pair {
            kernel,
            types,
            rows: [64, 32],
            k: 512,
            columns,
            n_cols: columns,
            gap: 0,
            shared: !lanes && i % 4 == 2,
            x: match (lanes, i % 4) {
                (false, _) => X::Storage,
                (true, 1) => X::Uniform,
                (true, _) => X::Spread,
            },
            scale: i / 2 % 2 == 0,
            max_grid: 65535,
            nan: false,
            lanes: 0,
            texture: lanes,
        };
        sweep(&mut all, base, i);
    }
    all
}

/// One pipeline over all numbers of rows, with row lengths, columns and gaps in turn; the `i`-th begins elsewhere.
pub fn sweep(all: &mut Vec<Pair>, base: Pair, i: usize) {
    all.push(base);
    let both = lengths(base.types[0]).iter().copied();
    let both: Vec<usize> = both
        .filter(|k| lengths(base.types[1]).contains(k))
        .collect();
    for (j, rows) in ROWS.into_iter().enumerate() {
        all.push(Pair {
            rows: [rows, ROWS[(3 * j + i) % ROWS.len()]],
            k: both.get(j % both.len().max(1)).copied().unwrap_or(512),
            n_cols: 1 + (j as u32 * 5) % base.columns,
            gap: [0, 2, 7][j % 3],
            nan: j % 2 == 1,
            ..base
        });
    }
    all.push(Pair {
        rows: [259, 133],
        max_grid: 3,
        ..base
    });
}

/// A row as buffers and a step.
pub fn case(caps: &Caps, p: &Pair, r: &mut Rng) -> Case {
    let caps = Caps {
        max_grid: p.max_grid.min(caps.max_grid),
        ..variant(caps, p.texture, p.shared)
    };
    let mut case = Case::new(format!("{p:?}"), p.n_cols, 1);
    let x_stride = stride(p.k as u32);
    let inputs = Activations {
        width: p.columns,
        n_cols: p.n_cols,
        k: p.k,
        size: 1.0,
        nan: p.nan,
        x: p.x,
    };
    let x = activations(&mut case, &inputs, r);
    let [rows, rows2] = p.rows.map(|n| n as u32);
    let out_row = 2;
    let out_row2 = out_row + rows + p.gap;
    let out_stride = stride(out_row2 + rows2);
    let out = case.guarded(&poison(p.columns * out_stride), POISON, 0);
    let parts = 5;
    let mut binds = Vec::new();
    let ms = [0, 1].map(|i| weights::matrix(weights::ty(p.types[i]), p.rows[i], p.k, false, r));
    let shifts = [("w", &ms[0]), ("w2", &ms[1])].map(|(name, m)| {
        let w = shard(&caps, m, 0, m.rows);
        let shift = w.texture.unwrap_or(0);
        binds.push(bind(name, case.buffer(w.init, w.bytes as usize, w.texture)));
        shift
    });
    binds.extend([bind_guarded("x", x), bind_guarded("out", out)]);
    if p.scale {
        binds.push(sums(&mut case, p.columns, p.n_cols, parts, r));
    }
    let params = params::MatVec {
        nb: p.k.div_ceil(32) as u32,
        row_vec4s: ms[0].row_vec4s() as u32,
        mult: mult_at(&caps, &ms[0], ms[0].rows),
        rows,
        out_row,
        tex_shift: shifts[0],
        x_stride: x_stride / 4,
        out_stride,
        n_cols: p.n_cols,
        parts,
        norm_n: 77,
        eps: 1e-5,
        row_vec4s2: ms[1].row_vec4s() as u32,
        mult2: mult_at(&caps, &ms[1], ms[1].rows),
        rows2,
        out_row2,
        tex_shift2: shifts[1],
        ..Default::default()
    };
    let first = p.kernel.trim_end_matches('2');
    let cut = cut(&caps, first, p.columns, p.x, p.lanes);
    let ends = Ends {
        scale: p.scale,
        sink: false,
    };
    let (shader, _) = product::shader(&caps, ms[0].ty.shader, cut, ends, rows);
    let (shader, grid) = pair(&caps, cut, shader, &ms[1], rows);
    case.step(shader, params, binds, grid);
    case
}
