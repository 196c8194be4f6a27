//! Q2_K: 256 weights in 16 parts of 16, `(d * scale) * q - dmin * min`, 4-bit scales and mins.
//! File (`block_q2_K`, 84 bytes): 16 bytes scale | min << 4; 64 bytes of 2-bit quants: 32 bytes hold
//! 128 weights, the first 32 in their lowest bits; f16 d; f16 dmin.
//!
//! GPU row: [2 u32 of 16 quants per block, 2 blocks per word][one word per group: 16 bytes
//! scale | min << 4][f16 d and dmin in one u32 per group, 4 per word].

use super::pack::{
    self, RowScale, blocks, copy, groups, half, pack, pair, put_f16, random_f16, split, two_bits,
};

const BYTES: usize = 84;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[80, 82];

pub(super) fn sections(k: usize) -> [usize; 3] {
    let ng = groups(k);
    [blocks(k).div_ceil(2), ng, ng.div_ceil(4)]
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(256)) {
        let (q, d, dmin) = (two_bits(&b[16..80]), pack::f16(b, 80), pack::f16(b, 82));
        for (j, out) in out.chunks_exact_mut(16).enumerate() {
            let (scale, min) = (d * f32::from(b[j] & 15), dmin * f32::from(b[j] >> 4));
            for (w, &q) in out.iter_mut().zip(&q[16 * j..]) {
                *w = scale * f32::from(q) - min;
            }
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [quants, scales, d] = split(out, sections(k));
    let scale = RowScale::of(
        row.chunks_exact(BYTES)
            .flat_map(|b| [half(b, 80), half(b, 82)]),
    );
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        pack::<2>(&two_bits(&b[16..80]), 0, &mut quants[16 * i..]);
        copy(&b[..16], &mut scales[4 * i..]);
        d[i] = pair(scale.apply(half(b, 80)), scale.apply(half(b, 82)));
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // Quants over 0 .. 3, scales over 0 .. 15; each min is its scale, so that the middle becomes 0.
    for s in &mut b[..16] {
        *s = *s & 15 | *s << 4;
    }
    let d = random_f16(b, 80, deviation / (1.25f32 * 77.5).sqrt());
    put_f16(b, 82, 1.5 * d);
}
