//! BF16: the upper half of an f32. File: 16 bits little-endian.
//!
//! GPU row: [4 words per block: 32 bf16, two per u32, the first one low].

use super::pack::{blocks, copy, even, half, split, unscaled};

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[];

pub(super) fn sections(k: usize) -> [usize; 1] {
    [4 * blocks(k)]
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, w) in src.chunks_exact(2).zip(out) {
        *w = f32::from_bits(u32::from(half(b, 0)) << 16);
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [weights] = split(out, sections(k));
    copy(row, weights);
    unscaled(weights.iter().flat_map(|w| [w << 16, w & 0xffff_0000]))
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    let bits = (even(u32::from(half(b, 0)) << 16) * deviation).to_bits();
    b.copy_from_slice(&((bits >> 16) as u16).to_le_bytes());
}
