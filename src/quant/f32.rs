//! F32: plain floats. File: `f32` little-endian.
//!
//! GPU row: [8 words per block: 32 f32].

use super::pack::{blocks, copy, even, split, unscaled};

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[];

pub(super) fn sections(k: usize) -> [usize; 1] {
    [8 * blocks(k)]
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, w) in src.chunks_exact(4).zip(out) {
        *w = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [weights] = split(out, sections(k));
    copy(row, weights);
    unscaled(weights.iter().copied())
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    let bits = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    b.copy_from_slice(&(even(bits) * deviation).to_le_bytes());
}
