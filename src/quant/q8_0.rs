//! Q8_0: 32 weights `d * q`.
//! File (`block_q8_0`, 34 bytes): f16 d; 32 i8.
//!
//! GPU row: [2 words of 32 i8 per block][f16 d, 8 per word].

use super::pack::{self, RowScale, blocks, copy, half, put_half, random_f16, split};

const BYTES: usize = 34;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0];

pub(super) fn sections(k: usize) -> [usize; 2] {
    let nb = blocks(k);
    [2 * nb, nb.div_ceil(8)]
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(32)) {
        let d = pack::f16(b, 0);
        for (w, &q) in out.iter_mut().zip(&b[2..]) {
            *w = d * f32::from(q as i8);
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [quants, scales] = split(out, sections(k));
    let scale = RowScale::of(row.chunks_exact(BYTES).map(|b| half(b, 0)));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        copy(&b[2..], &mut quants[8 * i..]);
        put_half(scales, i, scale.apply(half(b, 0)));
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // The quants are spread evenly over -128 .. 127.
    let rms = (5461.5f32).sqrt();
    random_f16(b, 0, deviation / rms);
}
