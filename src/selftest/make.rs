//! Turns rows of the case table into buffers and steps. What a plan promises about inputs is kept
//! and nothing more: columns are zero from k to the end of the last block of 32, then NaN.

use super::case::{Case, NAN, POISON, bind, bind_guarded};
use super::cases::{GetRows, Glu, Norm, Product};
use super::noise::Rng;
use super::weights;
use crate::kernel::params::{self, Mode};
use crate::kernel::{Caps, Shader};
use crate::plan::build::{mult_at, shard};
use crate::plan::product::{self, Cut, X};
use crate::plan::sizes::stride;
use crate::plan::{Bind, BufId, Dim};

pub(super) const ONE: Dim = Dim::Fixed(1);

pub(super) fn columns(max: u32) -> Dim {
    Dim::Columns { first: 0, max }
}

pub(super) fn bits(v: f32) -> u32 {
    v.to_bits()
}

/// `cols` columns of `stride` words, `pad` but for the first `n` of each.
pub(super) fn matrix(
    cols: u32,
    stride: u32,
    n: usize,
    pad: u32,
    mut value: impl FnMut(u32, usize) -> u32,
) -> Vec<u32> {
    let mut v = vec![pad; (cols * stride) as usize];
    for c in 0..cols {
        for i in 0..n {
            v[c as usize * stride as usize + i] = value(c, i);
        }
    }
    v
}

pub(super) fn poison(words: u32) -> Vec<u32> {
    vec![POISON; words as usize]
}

/// What a variant of a case makes of the device.
pub(super) fn variant(caps: &Caps, software: bool, shared: bool) -> Caps {
    Caps {
        software,
        subgroups: caps.subgroups && !shared,
        ..caps.clone()
    }
}

pub(super) fn uniform_words(uniform: bool) -> usize {
    if uniform { 65536 / 4 } else { 0 }
}

/// The activations of a product.
pub(super) struct Activations {
    /// Columns there are.
    pub width: u32,
    /// Columns of the batch.
    pub n_cols: u32,
    pub k: usize,
    /// Largest of them.
    pub size: f32,
    /// Columns outside the batch hold NaN instead of numbers.
    pub nan: bool,
    /// How the kernel gets them: a uniform binding always has its full length.
    pub x: X,
}

/// A buffer of them, to be bound guarded.
pub(super) fn activations(case: &mut Case, a: &Activations, r: &mut Rng) -> BufId {
    let stride = stride(a.k as u32);
    let blocks = a.k.next_multiple_of(32);
    let x = matrix(a.width, stride, blocks, NAN, |c, i| {
        match (i < a.k, c >= a.n_cols && a.nan) {
            (true, true) => NAN,
            (true, false) => bits(a.size * r.signed()),
            (false, _) => 0,
        }
    });
    let least = (a.width * stride) as usize + uniform_words(a.x != X::Storage);
    case.guarded(&x, NAN, least)
}

/// Words from column to column of partial sums, four to a part.
fn sums_stride(parts: u32) -> u32 {
    4 * parts.next_multiple_of(16)
}

/// The partial sums of a norm begun before, of the batch's columns, where a kernel reads `width` of them.
pub(super) fn sums(case: &mut Case, width: u32, n_cols: u32, parts: u32, r: &mut Rng) -> Bind {
    let stride = sums_stride(parts);
    let sums = matrix(n_cols, stride, 4 * parts as usize, NAN, |_, _| {
        bits(r.signed().abs())
    });
    bind_guarded("sums", case.guarded(&sums, NAN, (width * stride) as usize))
}

/// How a row cuts its product on a device; 0 lanes: as is usual.
pub(super) fn cut(caps: &Caps, kernel: &'static str, columns: u32, x: X, lanes: u32) -> Cut {
    Cut {
        kernel,
        columns,
        x: match x {
            X::Spread if !caps.spread() => X::Uniform,
            x => x,
        },
        lanes: match kernel {
            _ if lanes > 0 => lanes,
            "matvec_rows" => 8,
            "matmul" => 128,
            _ => 64.max(caps.subgroup_max).min(caps.max_lanes),
        },
        shared: !caps.subgroups,
    }
}

pub fn product(caps: &Caps, p: &Product, r: &mut Rng) -> Case {
    let caps = Caps {
        max_grid: p.max_grid.min(caps.max_grid),
        ..variant(caps, p.texture, p.shared)
    };
    let mut case = Case::new(format!("{p:?}"), p.n_cols, 1);
    let sink = p.ends.sink;
    let (mode, softcap) = if sink {
        (Mode::Add, 0.0)
    } else {
        (p.mode, p.softcap)
    };
    let m = weights::matrix(weights::ty(p.ty), p.rows, p.k, p.subnormal, r);
    let gated = matches!(mode, Mode::Silu | Mode::Gelu);
    // Not so large that activations saturate.
    let size = if gated { 0.1 } else { 1.0 };
    let width = if p.kernel == "matmul" {
        p.n_cols.next_multiple_of(32)
    } else {
        p.columns
    };
    let x_stride = stride(p.k as u32);
    let inputs = Activations {
        width,
        n_cols: p.n_cols,
        k: p.k,
        size,
        nan: p.nan,
        x: p.x,
    };
    let x = activations(&mut case, &inputs, r);
    let out_stride = stride(p.out_row + p.rows as u32);
    let first = p.out_row as usize;
    let out = matrix(width, out_stride, first + p.rows, POISON, |c, i| {
        let live = mode == Mode::Add && c < p.n_cols && i >= first;
        if live { bits(r.signed()) } else { POISON }
    });
    let out = case.guarded(&out, POISON, 0);
    let cut = cut(&caps, p.kernel, p.columns, p.x, p.lanes);
    let part_rows = product::part_rows(&caps, cut).unwrap_or(0);
    assert!(!sink || part_rows > 0, "subgroups of no certain size");
    let all_rows = p.out_row + p.rows as u32;
    let parts = if sink {
        all_rows.div_ceil(part_rows).div_ceil(4)
    } else {
        5
    };
    let mut norms = Vec::new();
    if p.ends.scale {
        norms.push(sums(&mut case, width, p.n_cols, parts, r));
    }
    if sink {
        let hn = case.guarded(&poison(width * out_stride), POISON, 0);
        let gain: Vec<f32> = (0..all_rows).map(|_| r.signed()).collect();
        norms.push(bind_guarded("hn", hn));
        norms.push(bind("gain", case.floats(&gain)));
        let sums = case.guarded(&poison(p.n_cols * sums_stride(parts)), POISON, 0);
        norms.push(bind_guarded("sums_out", sums));
    }
    let per = if p.shard == 0 { p.rows } else { p.shard };
    for first in (0..p.rows).step_by(per) {
        let rows = per.min(p.rows - first);
        assert!(
            !gated || (rows.is_multiple_of(2) && p.out_row.is_multiple_of(2)),
            "half a pair"
        );
        let w = shard(&caps, &m, first, rows);
        let (shift, w) = (
            w.texture.unwrap_or(0),
            case.buffer(w.init, w.bytes as usize, w.texture),
        );
        let params = params::MatVec {
            nb: p.k.div_ceil(32) as u32,
            row_vec4s: m.row_vec4s() as u32,
            mult: mult_at(&caps, &m, rows),
            rows: rows as u32,
            out_row: p.out_row + first as u32,
            tex_shift: shift,
            x_stride: x_stride / 4,
            out_stride,
            n_cols: p.n_cols,
            mode: mode as u32,
            softcap,
            parts,
            part_rows,
            norm_n: if sink { all_rows } else { 77 },
            eps: 1e-5,
            ..Default::default()
        };
        let (shader, grid) = product::shader(&caps, m.ty.shader, cut, p.ends, rows as u32);
        let mut binds = vec![bind("w", w), bind_guarded("x", x), bind_guarded("out", out)];
        binds.extend(norms.iter().cloned());
        case.step(shader, params, binds, grid);
    }
    case
}

pub fn get_rows(caps: &Caps, p: &GetRows, r: &mut Rng) -> Case {
    const ROWS: usize = 37;
    let tokens = [100, 136, 5, 137, 99, u32::MAX, 119];
    let cols = tokens.len() as u32;
    let caps = variant(caps, p.texture, false);
    let mut case = Case::new(format!("{p:?}"), cols, 1);
    let m = weights::matrix(weights::ty(p.ty), ROWS, p.k, p.subnormal, r);
    let w = shard(&caps, &m, 0, ROWS);
    let (shift, w) = (
        w.texture.unwrap_or(0),
        case.buffer(w.init, w.bytes as usize, w.texture),
    );
    let out_stride = stride(p.k as u32);
    let nb = p.k.div_ceil(32) as u32;
    // A token past the live columns: not dispatched.
    let mut batch = vec![cols, 0, 0, 0];
    tokens
        .iter()
        .chain(&[101])
        .for_each(|t| batch.extend([*t, 0, 0, 1]));
    let batch = case.words(batch);
    let out = case.guarded(&poison((cols + 1) * out_stride), POISON, 0);
    let params = params::GetRows {
        nb,
        row_vec4s: m.row_vec4s() as u32,
        mult: mult_at(&caps, &m, ROWS),
        rows: ROWS as u32,
        row0: 100,
        tex_shift: shift,
        out_stride: out_stride / 4,
        scale: p.scale,
        parts: nb.div_ceil(4),
    };
    let lanes = caps.lanes(32);
    let mut slots = vec![("quant", m.ty.shader), caps.weights()];
    let mut binds = vec![bind("w", w), bind("cols", batch), bind_guarded("out", out)];
    if p.norm {
        let gain: Vec<f32> = (0..32 * nb).map(|_| r.signed()).collect();
        let hn = case.guarded(&poison((cols + 1) * out_stride), POISON, 0);
        let sums = poison((cols + 1) * 4 * nb.div_ceil(4).next_multiple_of(16));
        binds.push(bind_guarded("hn", hn));
        binds.push(bind("gain", case.floats(&gain)));
        binds.push(bind_guarded("sums_out", case.guarded(&sums, POISON, 0)));
        slots.push(("embed", "slots/embed_norm.wgsl"));
    } else {
        slots.push(("embed", "slots/embed_plain.wgsl"));
    }
    let shader = Shader {
        kernel: "get_rows",
        slots,
        overrides: vec![("WG", lanes)],
    };
    case.step(
        shader,
        params,
        binds,
        [Dim::Fixed(nb.div_ceil(lanes)), columns(64), ONE],
    );
    case
}

pub(super) fn group(caps: &Caps, kernel: &'static str, shared: bool, lanes: u32) -> Shader {
    let slots = vec![variant(caps, false, shared).group()];
    Shader {
        kernel,
        slots,
        overrides: vec![("WG", lanes.min(caps.max_lanes))],
    }
}

pub fn norm(caps: &Caps, p: &Norm, r: &mut Rng) -> Case {
    let mut case = Case::new(format!("{p:?}"), p.cols, 1);
    let s = stride(p.n as u32);
    let x = matrix(p.cols, s, p.n, NAN, |_, _| bits(p.size * r.signed()));
    let x = case.guarded(&x, NAN, 0);
    let post = p.kernel == "post_norm";
    let weight: Vec<f32> = (0..p.n * (1 + usize::from(post)))
        .map(|_| 2.0 * r.signed())
        .collect();
    let mut binds = vec![bind_guarded("x", x), bind("weight", case.floats(&weight))];
    if post {
        // Not so large that what is added to it gets lost.
        let h = matrix(p.cols, s, p.n, POISON, |_, _| {
            bits(p.size.min(30.0) * r.signed())
        });
        binds.push(bind_guarded("h", case.guarded(&h, POISON, 0)));
    }
    binds.push(bind_guarded(
        "out",
        case.guarded(&poison(p.cols * s), POISON, 0),
    ));
    let params = params::Norm {
        n: p.n as u32,
        stride: s,
        eps: 1e-6,
    };
    case.step(
        group(caps, p.kernel, p.shared, p.lanes),
        params,
        binds,
        [columns(p.cols), ONE, ONE],
    );
    case
}

pub fn glu(caps: &Caps, p: &Glu, r: &mut Rng) -> Case {
    let mut case = Case::new(format!("{p:?}"), p.cols, 1);
    let n = p.n as u32;
    let (x_stride, out_stride) = (stride(2 * n), stride(n));
    let x = matrix(p.cols, x_stride, 2 * p.n, NAN, |_, _| {
        bits(p.size * r.signed())
    });
    let x = case.guarded(&x, NAN, 0);
    let out = case.guarded(&poison(p.cols * out_stride), POISON, 0);
    let params = params::Glu {
        n,
        up: n,
        x_stride,
        out_stride,
        mode: p.mode as u32,
    };
    let lanes = caps.lanes(64);
    let shader = Shader {
        kernel: "glu",
        slots: vec![],
        overrides: vec![("WG", lanes)],
    };
    let grid = [Dim::Fixed(n.div_ceil(lanes)), columns(p.cols), ONE];
    case.step(
        shader,
        params,
        vec![bind_guarded("x", x), bind_guarded("out", out)],
        grid,
    );
    case
}

pub fn take_row(caps: &Caps, (n, cols, taken): (usize, u32, u32), r: &mut Rng) -> Case {
    let mut case = Case::new(format!("take_row {taken} of {cols}, {n} elements"), cols, 1);
    let s = stride(n as u32);
    let x = matrix(cols, s, n, NAN, |_, _| bits(r.signed()));
    let x = case.guarded(&x, NAN, 0);
    let batch = case.words(vec![cols, taken, 0, 0]);
    let out = case.guarded(&poison(2 * s), POISON, 0);
    let params = params::TakeRow {
        n: n as u32,
        stride: s,
    };
    let lanes = caps.lanes(64);
    let shader = Shader {
        kernel: "take_row",
        slots: vec![],
        overrides: vec![("WG", lanes)],
    };
    let binds = vec![
        bind_guarded("x", x),
        bind("cols", batch),
        bind_guarded("out", out),
    ];
    case.step(
        shader,
        params,
        binds,
        [Dim::Fixed((n as u32).div_ceil(lanes)), ONE, ONE],
    );
    case
}

pub fn peak_fma((n, cols, rounds): (u32, u32, u32), r: &mut Rng) -> Case {
    let label = format!("peak_fma {n} lanes, {rounds} rounds");
    let mut case = Case::new(label, cols, 1);
    // Not so small a factor that the last round changes nothing.
    let factors = [0.9 + 0.05 * r.unit(), r.signed(), 0.0, 0.0];
    let x = case.guarded(&factors.map(bits), NAN, 0);
    let out = case.guarded(&poison(4 * n), POISON, 0);
    let shader = Shader {
        kernel: "peak_fma",
        slots: vec![],
        overrides: vec![("WG", 64)],
    };
    let binds = vec![bind_guarded("x", x), bind_guarded("out", out)];
    let grid = [columns(cols), ONE, ONE];
    case.step(shader, params::PeakFma { n, rounds }, binds, grid);
    case
}
