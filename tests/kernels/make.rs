//! Turns rows of the case table into buffers and steps. What a plan promises about inputs is kept
//! and nothing more: columns are zero from k to the end of the last block of 32, then NaN.

use super::cases::{Attention, GetRows, Glu, Norm, Product, RopeKv};
use super::common::Rng;
use super::rig::{Case, NAN, POISON, bind, bind_at, bind_guarded};
use super::weights;
use tokstep::kernel::params::{self, Mode};
use tokstep::kernel::{Caps, Shader};
use tokstep::model::rope::Rope;
use tokstep::plan::build::shard;
use tokstep::plan::product::{self, Cut};
use tokstep::plan::sizes::stride;
use tokstep::plan::Dim;

const ONE: Dim = Dim::Fixed(1);
const PAGE_LEN: u32 = 64;
/// f16 pairs that no kernel leaves behind, and that are not NaN.
const SENTINEL: u32 = 0x3a5a_3a5a;
/// A pair of f16 NaN: what must not be read from a cache.
const NAN_PAIR: u32 = 0x7e00_7e00;

fn columns(max: u32) -> Dim {
    Dim::Columns { first: 0, max }
}

fn bits(v: f32) -> u32 {
    v.to_bits()
}

/// `cols` columns of `stride` words, `pad` but for the first `n` of each.
fn matrix(cols: u32, stride: u32, n: usize, pad: u32, mut value: impl FnMut(u32, usize) -> u32) -> Vec<u32> {
    let mut v = vec![pad; (cols * stride) as usize];
    for c in 0..cols {
        for i in 0..n {
            v[c as usize * stride as usize + i] = value(c, i);
        }
    }
    v
}

fn poison(words: u32) -> Vec<u32> {
    vec![POISON; words as usize]
}

/// What a variant of a case makes of the device.
fn variant(caps: &Caps, software: bool, shared: bool) -> Caps {
    Caps { software, subgroups: caps.subgroups && !shared, ..caps.clone() }
}

fn uniform_words(uniform: bool) -> usize {
    if uniform { 65536 / 4 } else { 0 }
}

pub fn product(caps: &Caps, p: &Product, r: &mut Rng) -> Case {
    let caps = Caps { max_grid: p.max_grid, ..variant(caps, p.texture, p.shared) };
    let mut case = Case::new(format!("{p:?}"), p.n_cols, 1);
    let m = weights::matrix(weights::ty(p.ty), p.rows, p.k, p.subnormal, r);
    let gated = matches!(p.mode, Mode::Silu | Mode::Gelu);
    // Not so large that activations saturate.
    let size = if gated { 0.25 } else { 1.0 };
    let width = if p.kernel == "matmul" { p.n_cols.next_multiple_of(32) } else { p.columns };
    let x_stride = stride(p.k as u32);
    let x = matrix(width, x_stride, p.k.next_multiple_of(32), NAN, |c, i| {
        match (i < p.k, c >= p.n_cols && p.nan) {
            (true, true) => NAN,
            (true, false) => bits(size * r.signed()),
            (false, _) => 0,
        }
    });
    let x = case.guarded(&x, NAN, (width * x_stride) as usize + uniform_words(p.uniform));
    let out_stride = stride(p.out_row + p.rows as u32);
    let first = p.out_row as usize;
    let out = matrix(width, out_stride, first + p.rows, POISON, |c, i| {
        let live = p.mode == Mode::Add && c < p.n_cols && i >= first;
        if live { bits(r.signed()) } else { POISON }
    });
    let out = case.guarded(&out, POISON, 0);
    let per = if p.shard == 0 { p.rows } else { p.shard };
    for first in (0..p.rows).step_by(per) {
        let rows = per.min(p.rows - first);
        assert!(!gated || (rows % 2 == 0 && p.out_row % 2 == 0), "half a pair");
        let w = shard(&caps, &m, first, rows);
        let (shift, w) = (w.texture.unwrap_or(0), case.buffer(w.init, w.bytes as usize, w.texture));
        let params = params::MatVec {
            nb: p.k.div_ceil(32) as u32,
            row_vec4s: m.row_vec4s() as u32,
            mult: (rows * m.row_vec4s()) as u32,
            rows: rows as u32,
            out_row: p.out_row + first as u32,
            tex_shift: shift,
            x_stride: x_stride / 4,
            out_stride,
            n_cols: p.n_cols,
            mode: p.mode as u32,
            softcap: p.softcap,
        };
        let cut = Cut { kernel: p.kernel, columns: p.columns, uniform: p.uniform };
        let (shader, grid) = product::shader(&caps, m.ty, cut, rows as u32);
        let binds = vec![bind("w", w), bind_guarded("x", x), bind_guarded("out", out)];
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
    let (shift, w) = (w.texture.unwrap_or(0), case.buffer(w.init, w.bytes as usize, w.texture));
    let out_stride = stride(p.k as u32);
    let nb = p.k.div_ceil(32) as u32;
    // A token past the live columns: not dispatched.
    let mut batch = vec![cols, 0, 0, 0];
    tokens.iter().chain(&[101]).for_each(|t| batch.extend([*t, 0, 0, 1]));
    let batch = case.words(batch);
    let out = case.guarded(&poison((cols + 1) * out_stride), POISON, 0);
    let params = params::GetRows {
        nb,
        row_vec4s: m.row_vec4s() as u32,
        mult: (ROWS * m.row_vec4s()) as u32,
        rows: ROWS as u32,
        row0: 100,
        tex_shift: shift,
        out_stride: out_stride / 4,
        scale: p.scale,
    };
    let slots = vec![("quant", m.ty.shader), caps.weights()];
    let shader = Shader { kernel: "get_rows", slots, overrides: vec![("WG", 32)] };
    let binds = vec![bind("w", w), bind("cols", batch), bind_guarded("out", out)];
    case.step(shader, params, binds, [Dim::Fixed(nb.div_ceil(32)), columns(64), ONE]);
    case
}

fn group(caps: &Caps, kernel: &'static str, shared: bool, lanes: u32) -> Shader {
    let slots = vec![variant(caps, false, shared).group()];
    Shader { kernel, slots, overrides: vec![("WG", lanes.min(caps.max_lanes))] }
}

pub fn norm(caps: &Caps, p: &Norm, r: &mut Rng) -> Case {
    let mut case = Case::new(format!("{p:?}"), p.cols, 1);
    let s = stride(p.n as u32);
    let x = matrix(p.cols, s, p.n, NAN, |_, _| bits(p.size * r.signed()));
    let x = case.guarded(&x, NAN, 0);
    let post = p.kernel == "post_norm";
    let weight: Vec<f32> = (0..p.n * (1 + usize::from(post))).map(|_| 2.0 * r.signed()).collect();
    let mut binds = vec![bind_guarded("x", x), bind("weight", case.floats(&weight))];
    if post {
        // Not so large that what is added to it gets lost.
        let h = matrix(p.cols, s, p.n, POISON, |_, _| bits(p.size.min(30.0) * r.signed()));
        binds.push(bind_guarded("h", case.guarded(&h, POISON, 0)));
    }
    binds.push(bind_guarded("out", case.guarded(&poison(p.cols * s), POISON, 0)));
    let params = params::Norm { n: p.n as u32, stride: s, eps: 1e-6 };
    case.step(group(caps, p.kernel, p.shared, p.lanes), params, binds, [columns(p.cols), ONE, ONE]);
    case
}

pub fn glu(p: &Glu, r: &mut Rng) -> Case {
    let mut case = Case::new(format!("{p:?}"), p.cols, 1);
    let n = p.n as u32;
    let (x_stride, out_stride) = (stride(2 * n), stride(n));
    let x = matrix(p.cols, x_stride, 2 * p.n, NAN, |_, _| bits(p.size * r.signed()));
    let x = case.guarded(&x, NAN, 0);
    let out = case.guarded(&poison(p.cols * out_stride), POISON, 0);
    let params = params::Glu { n, up: n, x_stride, out_stride, mode: p.mode as u32 };
    let shader = Shader { kernel: "glu", slots: vec![], overrides: vec![("WG", 64)] };
    let grid = [Dim::Fixed(n.div_ceil(64)), columns(p.cols), ONE];
    case.step(shader, params, vec![bind_guarded("x", x), bind_guarded("out", out)], grid);
    case
}

pub fn take_row((n, cols, taken): (usize, u32, u32), r: &mut Rng) -> Case {
    let mut case = Case::new(format!("take_row {taken} of {cols}, {n} elements"), cols, 1);
    let s = stride(n as u32);
    let x = matrix(cols, s, n, NAN, |_, _| bits(r.signed()));
    let x = case.guarded(&x, NAN, 0);
    let batch = case.words(vec![cols, taken, 0, 0]);
    let out = case.guarded(&poison(2 * s), POISON, 0);
    let params = params::TakeRow { n: n as u32, stride: s };
    let shader = Shader { kernel: "take_row", slots: vec![], overrides: vec![("WG", 64)] };
    let binds = vec![bind_guarded("x", x), bind("cols", batch), bind_guarded("out", out)];
    case.step(shader, params, binds, [Dim::Fixed((n as u32).div_ceil(64)), ONE, ONE]);
    case
}

/// A page table of `slots` sequences in scrambled order.
fn scramble(n: u32, r: &mut Rng) -> Vec<u32> {
    let mut pages: Vec<u32> = (0..n).collect();
    for i in (1..n as usize).rev() {
        pages.swap(i, r.next() as usize % (i + 1));
    }
    pages
}

/// Header and columns (position, slot, flags).
fn batch(list: &[(u32, u32, u32)]) -> Vec<u32> {
    let mut v = vec![list.len() as u32, 0, 0, 0];
    list.iter().for_each(|(position, slot, flags)| v.extend([7, *position, *slot, *flags]));
    v
}

pub fn rope_kv(caps: &Caps, p: &RopeKv, r: &mut Rng) -> Case {
    let list = [(0, 0, 1), (1, 1, 1), (255, 0, 1), (3, 1, 0), (256, 1, 1), (1000, 0, 1)];
    let (cols, slots, context) = (list.len() as u32, 2, 1024);
    let pages_per_slot = context / PAGE_LEN;
    let mut case = Case::new(format!("{p:?}"), cols, 1001);
    let hdp = p.hd.next_multiple_of(8);
    let heads = p.n_head + 2 * p.n_kv;
    let (x_stride, q_stride) = (stride(heads * p.hd), stride(p.n_head * hdp));
    let x = matrix(cols, x_stride, (heads * p.hd) as usize, NAN, |_, _| bits(4.0 * r.signed()));
    let n_aux = u32::from(p.bias) * heads * p.hd + u32::from(p.norm) * 2 * p.hd;
    let aux: Vec<f32> = (0..n_aux.max(4)).map(|_| 2.0 * r.signed()).collect();
    let rope = Rope { rot: p.rot, base: 10000.0, scale: 1.0, factors: None, yarn: None };
    let cache = vec![SENTINEL; (slots * pages_per_slot * p.n_kv * PAGE_LEN * hdp / 2) as usize];
    let binds = vec![
        bind_guarded("x", case.guarded(&x, NAN, 0)),
        bind("cols", case.words(batch(&list))),
        bind("pages", case.words(scramble(slots * pages_per_slot, r))),
        bind("rope", case.floats(&rope.table(context))),
        bind("aux", case.floats(&aux)),
        bind_guarded("q", case.guarded(&poison(cols * q_stride), POISON, 0)),
        bind_guarded("kc", case.guarded(&cache, SENTINEL, 0)),
        bind_guarded("vc", case.guarded(&cache, SENTINEL, 0)),
    ];
    let params = params::RopeKv {
        n_head: p.n_head,
        n_kv: p.n_kv,
        hd: p.hd,
        hdp,
        rot: p.rot,
        x_stride,
        q_stride,
        page_len: PAGE_LEN,
        pages_per_slot,
        has_bias: p.bias.into(),
        has_norm: p.norm.into(),
        eps: 1e-6,
    };
    let grid = [Dim::Fixed(heads), columns(cols), ONE];
    case.step(group(caps, "rope_kv", p.shared, 32), params, binds, grid);
    case
}

pub fn attention(caps: &Caps, p: &Attention, r: &mut Rng) -> Case {
    let last = p.kv_len - 1;
    let list = [(last, 2, 1), (last / 2, 0, 1), (last, 1, 0), (0, 1, 1), (last - last / 3, 2, 1)];
    let (cols, slots) = (list.len() as u32, 3);
    let pages_per_slot = p.kv_len.div_ceil(PAGE_LEN) + 1;
    let mut case = Case::new(format!("{p:?}"), cols, p.kv_len);
    let hdp = p.hd.next_multiple_of(8);
    let q_stride = stride(p.n_head * hdp);
    let q = matrix(cols, q_stride, (p.n_head * hdp) as usize, NAN, |_, i| {
        bits(if i as u32 % hdp < p.hd { 2.0 * r.signed() } else { 0.0 })
    });
    let pages = scramble(slots * pages_per_slot, r);
    // Only what a live column may see is a number.
    let mut caches = [(); 2].map(|()| vec![NAN_PAIR; (slots * pages_per_slot * p.n_kv * PAGE_LEN * hdp / 2) as usize]);
    for slot in 0..slots {
        let live = list.iter().filter(|(_, s, active)| *s == slot && *active == 1);
        let seen = live.map(|(position, ..)| position + 1).max().unwrap_or(0);
        for t in 0..seen {
            let page = pages[(slot * pages_per_slot + t / PAGE_LEN) as usize];
            for kv in 0..p.n_kv {
                let at = ((page * p.n_kv + kv) * PAGE_LEN + t % PAGE_LEN) * hdp / 2;
                for cache in &mut caches {
                    for (i, word) in cache[at as usize..][..hdp as usize / 2].iter_mut().enumerate() {
                        let mut pair = |d: u32| match d < p.hd {
                            true => u32::from(half::f16::from_f32(r.signed()).to_bits()),
                            false => 0,
                        };
                        *word = pair(2 * i as u32) | pair(2 * i as u32 + 1) << 16;
                    }
                }
            }
        }
    }
    let heads = (p.n_head / p.n_kv).min(4);
    let blocks = (p.n_head / p.n_kv).div_ceil(heads);
    let n_chunks = (pages_per_slot * PAGE_LEN).div_ceil(p.chunk);
    let x = case.guarded(&q, NAN, (cols * q_stride) as usize + uniform_words(p.uniform));
    let [kc, vc] = caches.map(|c| case.guarded(&c, NAN_PAIR, 0));
    let batch = case.words(batch(&list));
    let pages = case.words(pages);
    let part = case.guarded(&poison(cols * p.n_head * n_chunks * (4 + hdp)), POISON, 0);
    let tile = if p.tile == 0 { cols } else { p.tile };
    for col0 in (0..cols).step_by(tile as usize) {
        let params = params::Attention {
            n_head: p.n_head,
            n_kv: p.n_kv,
            hdp,
            q_stride: q_stride / 4,
            heads,
            blocks,
            scale: 1.0 / (p.hd as f32).sqrt(),
            window: p.window,
            chunk: p.chunk,
            n_chunks,
            page_len: PAGE_LEN,
            pages_per_slot,
            col0,
        };
        let binds = vec![
            bind_at("x", x, col0 * q_stride),
            bind_guarded("kc", kc),
            bind_guarded("vc", vc),
            bind("cols", batch),
            bind("pages", pages),
            bind_guarded("part", part),
        ];
        let mut shader = group(caps, "attention", p.shared, 64);
        shader.slots.push(("x", if p.uniform { "slots/x_uniform.wgsl" } else { "slots/x_storage.wgsl" }));
        let along = Dim::Columns { first: col0, max: tile };
        case.step(shader, params, binds, [Dim::Fixed(p.n_kv * blocks), along, Dim::Chunks(p.chunk)]);
        case.steps.last_mut().expect("just pushed").first_col = col0;
    }
    let out_stride = stride(p.n_head * p.hd);
    let out = case.guarded(&poison(cols * out_stride), POISON, 0);
    let params = params::AttnCombine {
        n_head: p.n_head,
        hd: p.hd,
        hdp,
        window: p.window,
        chunk: p.chunk,
        n_chunks,
        out_stride,
    };
    let binds = vec![bind_guarded("part", part), bind("cols", batch), bind_guarded("out", out)];
    let shader = Shader { kernel: "attn_combine", slots: vec![], overrides: vec![("WG", 32)] };
    case.step(shader, params, binds, [Dim::Fixed(p.n_head), columns(cols), ONE]);
    case
}
