//! Q3_K: 256 weights in 16 parts of 16, `(d * (scale - 32)) * (q - 4)`, 6-bit scales.
//! File (`block_q3_K`, 110 bytes): 32 bytes of high bits, bit j of byte i = weight i of block j;
//! 64 bytes of 2-bit quants as in Q2_K; 12 bytes of scales; f16 d.
//!
//! GPU row: [2 u32 of 16 low parts per block, 2 blocks per word][high bits, one u32 per block, 4 per
//! word][one word per group: f32 d; low 4 bits of the 16 scales in two u32; their high 2 bits].

use super::pack::{self, blocks, groups, pack, random_f16, split, take, two_bits, unscaled};
use std::array;

const BYTES: usize = 110;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[108];

pub(super) fn sections(k: usize) -> [usize; 3] {
    let nb = blocks(k);
    [nb.div_ceil(2), nb.div_ceil(4), groups(k)]
}

fn quants(b: &[u8]) -> [u8; 256] {
    let mut q = two_bits(&b[32..96]);
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        take(q, b, j, 1, 2);
    }
    q
}

fn scales(b: &[u8]) -> [u8; 16] {
    let s = &b[96..108];
    array::from_fn(|j| (s[j % 8] >> (j / 8 * 4) & 15) | (s[8 + j % 4] >> (j / 4 * 2) & 3) << 4)
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(256)) {
        let (q, s, d) = (quants(b), scales(b), pack::f16(b, 108));
        for (j, out) in out.chunks_exact_mut(16).enumerate() {
            let scale = d * (f32::from(s[j]) - 32.0);
            for (w, &q) in out.iter_mut().zip(&q[16 * j..]) {
                *w = scale * (f32::from(q) - 4.0);
            }
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, high, words] = split(out, sections(k));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        let (q, s) = (quants(b), scales(b));
        pack::<2>(&q, 0, &mut low[16 * i..]);
        pack::<1>(&q, 2, &mut high[8 * i..]);
        let word = &mut words[4 * i..4 * i + 4];
        word[0] = pack::f16(b, 108).to_bits();
        pack::<4>(&s, 0, &mut word[1..3]);
        pack::<2>(&s, 4, &mut word[3..]);
    }
    unscaled(words.iter().step_by(4).copied())
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // Quants over -4 .. 3, scales over -32 .. 31.
    random_f16(b, 108, deviation / (5.5f32 * 341.5).sqrt());
}
