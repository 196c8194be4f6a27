//! Cases of the kernels that know the paged cache: rope_kv, attention and attn_combine.

use super::case::{Case, NAN, POISON, bind, bind_at, bind_guarded};
use super::make::{ONE, bits, columns, group, matrix, poison, uniform_words, variant};
use super::noise::Rng;
use super::paged_cases::{Attention, RopeKv};
use crate::kernel::params;
use crate::kernel::{Caps, Shader};
use crate::model::rope::Rope;
use crate::plan::Dim;
use crate::plan::attend::attention_shader;
use crate::plan::sizes::stride;

const PAGE_LEN: u32 = 64;
/// f16 pairs that no kernel leaves behind, and that are not NaN.
const SENTINEL: u32 = 0x3a5a_3a5a;
/// A pair of f16 NaN: what must not be read from a cache.
const NAN_PAIR: u32 = 0x7e00_7e00;

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
    list.iter()
        .for_each(|(position, slot, flags)| v.extend([7, *position, *slot, *flags]));
    v
}

pub fn rope_kv(caps: &Caps, p: &RopeKv, r: &mut Rng) -> Case {
    let list = [
        (0, 0, 1),
        (1, 1, 1),
        (255, 0, 1),
        (3, 1, 0),
        (256, 1, 1),
        (1000, 0, 1),
    ];
    let (cols, slots, context) = (list.len() as u32, 2, 1024);
    let pages_per_slot = context / PAGE_LEN;
    let mut case = Case::new(format!("{p:?}"), cols, 1001);
    let hdp = p.hd.next_multiple_of(8);
    let heads = p.n_head + 2 * p.n_kv;
    let (x_stride, q_stride) = (stride(heads * p.hd), stride(p.n_head * hdp));
    let x = matrix(cols, x_stride, (heads * p.hd) as usize, NAN, |_, _| {
        bits(4.0 * r.signed())
    });
    let n_aux = u32::from(p.bias) * heads * p.hd + u32::from(p.norm) * 2 * p.hd;
    let aux: Vec<f32> = (0..n_aux.max(4)).map(|_| 2.0 * r.signed()).collect();
    let rope = Rope {
        rot: p.rot,
        base: 10000.0,
        scale: 1.0,
        factors: None,
        yarn: None,
    };
    let page = (p.n_kv * PAGE_LEN * hdp / 2) as usize;
    let cache = vec![SENTINEL; (slots * pages_per_slot) as usize * page];
    let caps = &variant(caps, p.texture, p.shared);
    let texture = caps.kv_texture();
    let [kc, vc] = [(); 2].map(|()| case.cache(cache.clone(), SENTINEL, texture, page));
    let binds = vec![
        bind_guarded("x", case.guarded(&x, NAN, 0)),
        bind("cols", case.words(batch(&list))),
        bind("pages", case.words(scramble(slots * pages_per_slot, r))),
        bind("rope", case.floats(&rope.table(context))),
        bind("aux", case.floats(&aux)),
        bind_guarded("q", case.guarded(&poison(cols * q_stride), POISON, 0)),
        case.bind_cache("kc", kc),
        case.bind_cache("vc", vc),
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
        layer_shift: 2,
    };
    let grid = [Dim::Fixed(heads), columns(cols), ONE];
    let mut shader = group(caps, "rope_kv", p.shared, caps.group_lanes(32));
    shader.slots.push(caps.cache());
    case.step(shader, params, binds, grid);
    case
}

pub fn attention(caps: &Caps, p: &Attention, r: &mut Rng) -> Case {
    let last = p.kv_len - 1;
    let list = [
        (last, 2, 1),
        (last / 2, 0, 1),
        (last, 1, 0),
        (0, 1, 1),
        (last - last / 3, 2, 1),
    ];
    let (cols, slots) = (list.len() as u32, 3);
    let pages_per_slot = p.kv_len.div_ceil(PAGE_LEN) + 1;
    let mut case = Case::new(format!("{p:?}"), cols, p.kv_len);
    let hdp = p.hd.next_multiple_of(8);
    let q_stride = stride(p.n_head * hdp);
    let q = matrix(cols, q_stride, (p.n_head * hdp) as usize, NAN, |_, i| {
        bits(if i as u32 % hdp < p.hd {
            2.0 * r.signed()
        } else {
            0.0
        })
    });
    let pages = scramble(slots * pages_per_slot, r);
    // Only what a live column may see is a number.
    let mut caches = [(); 2]
        .map(|()| vec![NAN_PAIR; (slots * pages_per_slot * p.n_kv * PAGE_LEN * hdp / 2) as usize]);
    for slot in 0..slots {
        let live = list
            .iter()
            .filter(|(_, s, active)| *s == slot && *active == 1);
        let seen = live.map(|(position, ..)| position + 1).max().unwrap_or(0);
        for t in 0..seen {
            let page = pages[(slot * pages_per_slot + t / PAGE_LEN) as usize];
            for kv in 0..p.n_kv {
                let at = ((page * p.n_kv + kv) * PAGE_LEN + t % PAGE_LEN) * hdp / 2;
                for cache in &mut caches {
                    for (i, word) in cache[at as usize..][..hdp as usize / 2]
                        .iter_mut()
                        .enumerate()
                    {
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
    let x = case.guarded(
        &q,
        NAN,
        (cols * q_stride) as usize + uniform_words(p.uniform),
    );
    let caps = &variant(caps, p.texture, p.shared);
    let page = (p.n_kv * PAGE_LEN * hdp / 2) as usize;
    let [kc, vc] = caches.map(|c| case.cache(c, NAN_PAIR, caps.kv_texture(), page));
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
            layer_shift: 2,
        };
        let binds = vec![
            bind_at("x", x, col0 * q_stride),
            case.bind_cache("kc", kc),
            case.bind_cache("vc", vc),
            bind("cols", batch),
            bind("pages", pages),
            bind_guarded("part", part),
        ];
        let shader = attention_shader(caps, p.uniform, heads, hdp);
        let along = Dim::Columns {
            first: col0,
            max: tile,
        };
        case.step(
            shader,
            params,
            binds,
            [Dim::Fixed(p.n_kv * blocks), along, Dim::Chunks(p.chunk)],
        );
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
    let binds = vec![
        bind_guarded("part", part),
        bind("cols", batch),
        bind_guarded("out", out),
    ];
    let shader = Shader {
        kernel: "attn_combine",
        slots: vec![],
        overrides: vec![("WG", caps.lanes(32))],
    };
    case.step(
        shader,
        params,
        binds,
        [Dim::Fixed(p.n_head), columns(cols), ONE],
    );
    case
}
