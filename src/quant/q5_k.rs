//! Q5_K: 256 weights in 8 blocks of 32, `(d * scale) * q - dmin * min`, 6-bit scales and mins.
//! File (`block_q5_K`, 176 bytes): f16 d; f16 dmin; 12 bytes of scales and mins; 32 bytes of high
//! bits, bit j of byte i = weight i of block j; 128 bytes of nibbles. All but the high bits as in
//! Q4_K.
//!
//! GPU row: [nb words of 32 nibbles][high bits, one u32 per block, 4 per word][one word per group,
//! as in Q4_K].

use super::pack::{blocks, groups, pack, split, take};
use super::q4_k::{decode_block, k_nibbles, put_group, random_scales, row_scale};

const BYTES: usize = 176;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0, 2];

pub(super) fn sections(k: usize) -> [usize; 3] {
    [blocks(k), blocks(k).div_ceil(4), groups(k)]
}

fn quants(b: &[u8]) -> [u8; 256] {
    let mut q = k_nibbles(&b[48..]);
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        take(q, &b[16..], j, 1, 4);
    }
    q
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(256)) {
        decode_block(b, &quants(b), out);
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, high, scales] = split(out, sections(k));
    let scale = row_scale(row.chunks_exact(BYTES));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        let q = quants(b);
        pack::<4>(&q, 0, &mut low[32 * i..]);
        pack::<1>(&q, 4, &mut high[8 * i..]);
        put_group(b, scale, &mut scales[4 * i..]);
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    random_scales(b, 15.5, deviation / 85.25f32.sqrt());
}
