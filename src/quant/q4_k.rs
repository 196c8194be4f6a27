//! Q4_K: 256 weights in 8 blocks of 32, `(d * scale) * q - dmin * min`, 6-bit scales and mins.
//! File (`block_q4_K`, 144 bytes): f16 d; f16 dmin; 12 bytes of scales and mins; 128 bytes of
//! nibbles: 32 bytes hold a block in their low nibbles and the next one in their high nibbles.
//!
//! GPU row: [nb words of 32 nibbles][one word per group: f16 d and dmin; low 4 bits of the 8
//! scales; low 4 bits of the 8 mins; high 2 bits of the scales, then of the mins].

use super::pack::{
    self, RowScale, blocks, groups, half, pack, pair, put_f16, random_f16, split, take,
};
use std::array;

const BYTES: usize = 144;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0, 2];

pub(super) fn sections(k: usize) -> [usize; 2] {
    [blocks(k), groups(k)]
}

fn quants(b: &[u8]) -> [u8; 256] {
    k_nibbles(&b[16..])
}

/// 256 nibbles from 128 bytes.
pub(super) fn k_nibbles(qs: &[u8]) -> [u8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        take(q, &qs[j / 2 * 32..], j % 2 * 4, 15, 0);
    }
    q
}

/// The 8 scales, then the 8 mins, of a Q4_K or Q5_K block.
fn scales_mins(b: &[u8]) -> [u8; 16] {
    let s = &b[4..16];
    array::from_fn(|i| match (i / 8, i % 8) {
        (part, j @ 0..4) => s[4 * part + j] & 63,
        (part, j) => (s[4 + j] >> (4 * part) & 15) | (s[4 * part + j - 4] >> 6) << 4,
    })
}

/// Weights of a Q4_K or Q5_K block from its quants.
pub(super) fn decode_block(b: &[u8], q: &[u8; 256], out: &mut [f32]) {
    let (d, dmin, s) = (pack::f16(b, 0), pack::f16(b, 2), scales_mins(b));
    for (j, (out, q)) in out.chunks_exact_mut(32).zip(q.chunks_exact(32)).enumerate() {
        let (scale, min) = (d * f32::from(s[j]), dmin * f32::from(s[j + 8]));
        for (w, &q) in out.iter_mut().zip(q) {
            *w = scale * f32::from(q) - min;
        }
    }
}

/// The row scale of Q4_K or Q5_K blocks.
pub(super) fn row_scale<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> RowScale {
    RowScale::of(blocks.flat_map(|b| [half(b, 0), half(b, 2)]))
}

/// The word of scales of a Q4_K or Q5_K block.
pub(super) fn put_group(b: &[u8], scale: RowScale, word: &mut [u32]) {
    let s = scales_mins(b);
    word[0] = pair(scale.apply(half(b, 0)), scale.apply(half(b, 2)));
    pack::<4>(&s, 0, &mut word[1..3]);
    pack::<2>(&s, 4, &mut word[3..4]);
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(256)) {
        decode_block(b, &quants(b), out);
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, scales] = split(out, sections(k));
    let scale = row_scale(row.chunks_exact(BYTES));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        pack::<4>(&quants(b), 0, &mut low[32 * i..]);
        put_group(b, scale, &mut scales[4 * i..]);
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    random_scales(b, 7.5, deviation / 21.25f32.sqrt());
}

/// Scales of a Q4_K or Q5_K block whose quants are spread evenly around `middle` with deviation 1.
pub(super) fn random_scales(b: &mut [u8], middle: f32, deviation: f32) {
    // Each min is its scale, over 0 .. 63, so that the middle becomes 0.
    for i in 4..8 {
        b[i + 4] = b[i];
        b[i + 8] = b[i + 8] & 15 | b[i + 8] << 4;
    }
    let d = random_f16(b, 0, deviation / 1333.5f32.sqrt());
    put_f16(b, 2, middle * d);
}
