//! Q6_K: 256 weights in 16 parts of 16, `(d * scale) * (q - 32)`, i8 scales.
//! File (`block_q6_K`, 210 bytes): 128 bytes of low 4 bits; 64 bytes of high 2 bits; 16 i8 scales;
//! f16 d. Of each half block (64 low bytes L, 32 high bytes H) the four runs of 32 weights are
//! L[0..32] low nibbles, L[32..64] low, L[0..32] high, L[32..64] high, with bits 0, 2, 4, 6 of H.
//!
//! GPU row: [nb words of 32 low nibbles][2 u32 of 16 high parts per block, 2 blocks per word]
//! [one word of 16 scales per group][f32 d, 4 groups per word].

use super::pack::{self, blocks, copy, groups, pack, random_f16, split, take, unscaled};

const BYTES: usize = 210;

/// Byte positions in a block of its f16 numbers.
pub(super) const HALVES: &[usize] = &[208];

pub(super) fn sections(k: usize) -> [usize; 4] {
    let (nb, ng) = (blocks(k), groups(k));
    [nb, nb.div_ceil(2), ng, ng.div_ceil(4)]
}

fn quants(b: &[u8]) -> [u8; 256] {
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        let (half, run) = (j / 4, j % 4);
        take(q, &b[64 * half + run % 2 * 32..], run / 2 * 4, 15, 0);
        take(q, &b[128 + 32 * half..], 2 * run, 3, 4);
    }
    q
}

pub(super) fn decode(src: &[u8], out: &mut [f32]) {
    for (b, out) in src.chunks_exact(BYTES).zip(out.chunks_exact_mut(256)) {
        let (q, d) = (quants(b), pack::f16(b, 208));
        for (j, out) in out.chunks_exact_mut(16).enumerate() {
            let scale = d * f32::from(b[192 + j] as i8);
            for (w, &q) in out.iter_mut().zip(&q[16 * j..]) {
                *w = scale * (f32::from(q) - 32.0);
            }
        }
    }
}

pub(super) fn repack(row: &[u8], k: usize, out: &mut [u32]) -> f32 {
    let [low, high, scales, d] = split(out, sections(k));
    for (i, b) in row.chunks_exact(BYTES).enumerate() {
        let q = quants(b);
        pack::<4>(&q, 0, &mut low[32 * i..]);
        pack::<2>(&q, 4, &mut high[16 * i..]);
        copy(&b[192..208], &mut scales[4 * i..]);
        d[i] = pack::f16(b, 208).to_bits();
    }
    unscaled(d.iter().copied())
}

/// A block of random bytes becomes one of weights around 0 with this deviation.
pub(super) fn random(b: &mut [u8], deviation: f32) {
    // Quants over -32 .. 31, scales over -128 .. 127.
    random_f16(b, 208, deviation / (341.5f32 * 5461.5).sqrt());
}
