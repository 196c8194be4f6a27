//! Helpers of the types: bit packing, record sections, and the row scale.
//!
//! Row scale: devices may flush subnormal f16 to zero, and most real K-quant scales are subnormal.
//! So the f16 numbers of a row are all multiplied by one power of two that brings the largest
//! finite one into [2^14, 2^15), and the row's results are multiplied by its inverse. What is still
//! subnormal then is rounded to 0 or +-2^-14, an error below 2^-28 of the row's largest. NaN and
//! infinity stay as they are.

use std::array;

/// Blocks of 32 weights in a row of `k`.
pub(super) fn blocks(k: usize) -> usize {
    k.div_ceil(32)
}

/// Groups of 256 weights in a row of `k`.
pub(super) fn groups(k: usize) -> usize {
    k.div_ceil(256)
}

/// Splits a row record into its sections, given in 16-byte words, and clears it.
pub(super) fn split<const N: usize>(out: &mut [u32], vec4s: [usize; N]) -> [&mut [u32]; N] {
    assert_eq!(
        out.len(),
        4 * vec4s.iter().sum::<usize>(),
        "a record of the row's size"
    );
    out.fill(0);
    let mut rest = out;
    vec4s.map(|n| {
        let (section, tail) = std::mem::take(&mut rest).split_at_mut(4 * n);
        rest = tail;
        section
    })
}

/// Packs `BITS` bits of each value from bit `shift` up, the first value in a word's lowest bits.
pub(super) fn pack<const BITS: usize>(values: &[u8], shift: u32, out: &mut [u32]) {
    let mask = (1 << BITS) - 1;
    for (word, chunk) in out.iter_mut().zip(values.chunks(32 / BITS)) {
        for (i, &v) in chunk.iter().enumerate() {
            *word |= (u32::from(v) >> shift & mask) << (BITS * i);
        }
    }
}

/// Two 16-bit halves in a word, the first one low.
pub(super) fn pair(low: u32, high: u32) -> u32 {
    low | high << 16
}

/// Stores 16 bits as number `i` of a section of halves.
pub(super) fn put_half(section: &mut [u32], i: usize, half: u32) {
    section[i / 2] |= half << (16 * (i % 2));
}

/// The little-endian 16 bits at byte `at`.
pub(super) fn half(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

/// The f16 at byte `at`, exactly.
pub(super) fn f16(b: &[u8], at: usize) -> f32 {
    half::f16::from_bits(half(b, at)).to_f32()
}

/// 32 4-bit quants from 16 bytes: the low nibbles, then the high ones.
pub(super) fn nibbles(qs: &[u8]) -> [u8; 32] {
    array::from_fn(|i| if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 })
}

/// [`nibbles`] with a fifth bit each from the 32 bits `high`.
pub(super) fn five_bits(qs: &[u8], high: u32) -> [u8; 32] {
    let low = nibbles(qs);
    array::from_fn(|i| low[i] | ((high >> i & 1) as u8) << 4)
}

/// 256 2-bit quants from 64 bytes: 32 bytes hold 128 weights, the first 32 in their lowest bits.
pub(super) fn two_bits(qs: &[u8]) -> [u8; 256] {
    array::from_fn(|i| qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3)
}

/// The power of two by which a row's f16 numbers are multiplied.
#[derive(Clone, Copy)]
pub(super) struct RowScale {
    exponent: i32,
}

const INFINITY: u16 = 0x7c00;
const SMALLEST_NORMAL: u16 = 0x0400; // 2^-14

impl RowScale {
    /// From the bits of all f16 numbers of the row.
    pub(super) fn of(halves: impl Iterator<Item = u16>) -> RowScale {
        let largest = halves
            .map(|h| h & 0x7fff)
            .filter(|&h| h < INFINITY)
            .max()
            .unwrap_or(0);
        let log2 = match largest {
            0 => 14, // nothing to scale
            1..SMALLEST_NORMAL => largest.ilog2() as i32 - 24,
            _ => i32::from(largest >> 10) - 15,
        };
        RowScale {
            exponent: 14 - log2,
        }
    }

    /// Bits of the scaled number.
    pub(super) fn apply(self, half: u16) -> u32 {
        let (sign, size) = (half & 0x8000, half & 0x7fff);
        let scaled_exponent = i32::from(size >> 10) + self.exponent;
        let scaled = if size == 0 || size >= INFINITY {
            size
        } else if size >= SMALLEST_NORMAL && scaled_exponent > 0 {
            size & 0x03ff | (scaled_exponent as u16) << 10
        } else {
            // Exact: an f32 holds every f16 times 2^38.
            let value = half::f16::from_bits(size).to_f32() * power_of_two(self.exponent);
            match half::f16::from_f32(value).to_bits() {
                h @ SMALLEST_NORMAL.. => h,
                h if h >= SMALLEST_NORMAL / 2 => SMALLEST_NORMAL,
                _ => 0,
            }
        };
        u32::from(sign | scaled)
    }

    /// What the row's results must be multiplied by.
    pub(super) fn multiplier(self) -> f32 {
        power_of_two(-self.exponent)
    }
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}
