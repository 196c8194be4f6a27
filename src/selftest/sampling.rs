//! Cases of the sampler's kernels: penalties, the parts of each row, the draw.

use bytemuck::Zeroable;

use super::case::{Case, NAN, POISON, bind, bind_guarded};
use super::make::{ONE, group, poison, variant};
use super::noise::Rng;
use crate::kernel::Caps;
use crate::kernel::params::{self, Slot};
use crate::plan::{Bind, Dim};

/// One draw of three slots: `penalize`, `logits_part`, `sample`.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Logits of a row.
    pub n_vocab: u32,
    /// Parts that are looked at first.
    pub n_parts: u32,
    /// Lanes of `sample`.
    pub lanes: u32,
    /// Without subgroups.
    pub shared: bool,
    /// Sampled, or the largest logit taken.
    pub temp: f32,
    /// See [`Slot`].
    pub top_k: u32,
    /// See [`Slot`].
    pub top_p: f32,
    /// See [`Slot`].
    pub min_p: f32,
}

/// Slot of each row of logits (none of the second); slot 3 is not active.
const ROWS: [u32; 4] = [2, u32::MAX, 0, 3];
const SLOTS: u32 = 4;
const HIST: u32 = 64;
const RING: u32 = 8;

/// Vocabularies of one part and of several, all filters, both widths of workgroups.
pub fn samplings() -> Vec<Sampling> {
    let mut all = Vec::new();
    for shared in [false, true] {
        for lanes in [64, 256] {
            for (i, n_vocab) in [31, 65, 700, 3001].into_iter().enumerate() {
                let base = Sampling {
                    n_vocab,
                    n_parts: if n_vocab > 64 { 7 } else { 1 },
                    lanes,
                    shared,
                    temp: 0.0,
                    top_k: 0,
                    top_p: 1.0,
                    min_p: 0.0,
                };
                all.push(base);
                all.push(Sampling {
                    temp: 0.8,
                    top_k: [3, 40, 0, 300][i],
                    top_p: [1.0, 0.9, 0.5, 0.95][i],
                    min_p: [0.05, 0.0, 0.1, 0.0][i],
                    ..base
                });
            }
        }
    }
    all
}

/// A row as buffers and steps.
pub fn case(caps: &Caps, p: &Sampling, r: &mut Rng) -> Case {
    let rows = ROWS.len() as u32;
    let mut case = Case::new(format!("{p:?}"), 1, 1);
    let stride = p.n_vocab.next_multiple_of(64);
    let logits: Vec<u32> = (0..rows * stride)
        .map(|i| match i % stride < p.n_vocab {
            true => (4.0 * (r.unit() + r.unit() + r.unit() - 1.5)).to_bits(),
            false => NAN,
        })
        .collect();
    let logits = case.guarded(&logits, NAN, 0);
    let part = case.guarded(&poison(rows * p.n_parts * 4), POISON, 0);
    let mut slots = vec![Slot::zeroed(); SLOTS as usize];
    for (i, s) in slots.iter_mut().enumerate() {
        *s = Slot {
            temp: p.temp,
            top_k: p.top_k,
            top_p: p.top_p,
            min_p: p.min_p,
            seed_lo: r.next(),
            seed_hi: r.next(),
            repeat_penalty: 1.3,
            repeat_last_n: [8, 64, 8192, 3][i],
            count: r.next() % 100,
            hist_len: 20 + i as u32,
            ..*s
        };
    }
    let mut cols = vec![SLOTS, 0, 0, 0];
    (0..SLOTS).for_each(|s| cols.extend([0, 10 + s, s, u32::from(s != 3)]));
    let history: Vec<u32> = (0..HIST * SLOTS).map(|_| r.next() % p.n_vocab).collect();
    let slots = case.words(bytemuck::cast_slice(&slots).to_vec());
    let cols = case.words(cols);
    let history = case.words(history);
    let ring = case.words(vec![7; (RING * SLOTS) as usize]);
    let rows_of = case.words(ROWS.to_vec());
    let bound = |name: &'static str| -> Bind {
        match name {
            "logits" => bind_guarded(name, logits),
            "part" => bind_guarded(name, part),
            "slots" => bind(name, slots),
            "cols" => bind(name, cols),
            "history" => bind(name, history),
            "ring" => bind(name, ring),
            _ => bind(name, rows_of),
        }
    };
    let binds = |kernel: &str| {
        let k = crate::kernel::by_name(kernel);
        k.reads.iter().chain(k.writes).map(|n| bound(n)).collect()
    };
    let shared = &variant(caps, false, p.shared);
    let each = Dim::Fixed(rows);
    let n_vocab = p.n_vocab;
    let shader = |kernel, lanes| group(caps, kernel, p.shared, shared.group_lanes(lanes));
    case.step(
        shader("penalize", 64),
        params::Penalize {
            n_vocab,
            stride,
            hist_stride: HIST,
        },
        binds("penalize"),
        [each, ONE, ONE],
    );
    case.step(
        shader("logits_part", 64),
        params::LogitsPart {
            n_vocab,
            stride,
            n_parts: p.n_parts,
            span: n_vocab.div_ceil(p.n_parts),
        },
        binds("logits_part"),
        [Dim::Fixed(p.n_parts), each, ONE],
    );
    case.step(
        shader("sample", p.lanes),
        params::Sample {
            n_vocab,
            stride,
            n_parts: p.n_parts,
            hist_stride: HIST,
            ring_len: RING,
        },
        binds("sample"),
        [each, ONE, ONE],
    );
    case
}
