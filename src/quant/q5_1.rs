//! Q5_1: 32 weights `d * q + m`.
//! File (`block_q5_1`, 24 bytes): f16 d; f16 m; u32 of high bits; 16 bytes of nibbles, as in Q5_0.
//!
//! GPU row: [nb words of 32 nibbles][high bits, one u32 per block, 4 per word][f16 d, f16 m in one
//! u32 per block, 4 per word].

use super::pack::{
    self, RowScale, blocks, five_bits, half, nibbles, pack, pair, put_f16, random_f16, split,
};

const BYTES: usize = 24;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0, 2];

pub(super) fn sections(k: usize) -> [usize; 3] {
    let nb = blocks(k);
    [nb, nb.div_ceil(4), nb.div_ceil(4)]
}

fn high_bits(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[4], b[5], b[6], b[7]])
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(32)) {
        let (d, m) = (pack::f16(b, 0), pack::f16(b, 2));
        for (w, q) in out.iter_mut().zip(five_bits(&b[8..], high_bits(b))) {
            *w = d * f32::from(q) + m;
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, high, scales] = split(out, sections(k));
    let scale = RowScale::of(
        row.chunks_exact(BYTES)
            .flat_map(|b| [half(b, 0), half(b, 2)]),
    );
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        pack::<4>(&nibbles(&b[8..]), 0, &mut low[4 * i..]);
        high[i] = high_bits(b);
        scales[i] = pair(scale.apply(half(b, 0)), scale.apply(half(b, 2)));
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // The quants are spread evenly over 0 .. 31, so their middle must become 0.
    let d = random_f16(b, 0, deviation / (85.25f32).sqrt());
    put_f16(b, 2, -15.5 * d);
}
