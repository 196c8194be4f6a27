//! Q5_0: 32 weights `d * (q - 16)`.
//! File (`block_q5_0`, 22 bytes): f16 d; u32 of high bits, bit i = weight i; 16 bytes of nibbles as
//! in Q4_0.
//!
//! GPU row: [nb words of 32 nibbles][high bits, one u32 per block, 4 per word][f16 d, 8 per word].

use super::pack::{
    self, RowScale, blocks, five_bits, half, nibbles, pack, put_half, random_f16, split,
};

const BYTES: usize = 22;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0];

pub(super) fn sections(k: usize) -> [usize; 3] {
    let nb = blocks(k);
    [nb, nb.div_ceil(4), nb.div_ceil(8)]
}

fn high_bits(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[2], b[3], b[4], b[5]])
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(32)) {
        let d = pack::f16(b, 0);
        for (w, q) in out.iter_mut().zip(five_bits(&b[6..], high_bits(b))) {
            *w = d * (f32::from(q) - 16.0);
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, high, scales] = split(out, sections(k));
    let scale = RowScale::of(row.chunks_exact(BYTES).map(|b| half(b, 0)));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        pack::<4>(&nibbles(&b[6..]), 0, &mut low[4 * i..]);
        high[i] = high_bits(b);
        put_half(scales, i, scale.apply(half(b, 0)));
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // The quants are spread evenly over -16 .. 15.
    let rms = (85.5f32).sqrt();
    random_f16(b, 0, deviation / rms);
}
