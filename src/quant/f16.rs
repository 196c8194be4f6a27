//! F16: half floats. File: 16 bits little-endian.
//!
//! GPU row: [4 words per block: 32 f16 times the row scale, two per u32, the first one low].

use super::pack::{self, RowScale, blocks, copy, even, half, pair, put_f16, split};

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[0];

pub(super) fn sections(k: usize) -> [usize; 1] {
    [4 * blocks(k)]
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, w) in src.chunks_exact(2).zip(out) {
        *w = pack::f16(b, 0);
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [weights] = split(out, sections(k));
    let scale = RowScale::of(row.chunks_exact(2).map(|b| half(b, 0)));
    copy(row, weights);
    for w in weights.iter_mut() {
        *w = pair(scale.apply(*w as u16), scale.apply((*w >> 16) as u16));
    }
    scale.multiplier()
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    let bits = u32::from(half(b, 0)) << 16;
    put_f16(b, 0, even(bits) * deviation);
}
