//! Helpers of the types: bit packing, record sections, and the row scale.
//!
//! Row scale: devices may flush subnormal f16 to zero, and most real K-quant scales are subnormal.
//! So the f16 numbers of a row are all multiplied by one power of two that brings the largest
//! finite one into [2^14, 2^15), and the row's results are multiplied by its inverse. What is still
//! subnormal then is rounded to 0 or +-2^-14, an error below 2^-28 of the row's largest. NaN and
//! infinity stay as they are, and make the row's multiplier NaN, which tells that they are there.

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
pub(super) fn pack<const BITS: usize>(values: &[u8], shift: usize, out: &mut [u32]) {
    for (word, chunk) in out.iter_mut().zip(values.chunks_exact(32 / BITS)) {
        let eights = chunk.as_chunks::<8>().0.iter().enumerate();
        *word = eights.fold(0, |w, (i, v)| w | pack8::<BITS>(v, shift) << (8 * BITS * i));
    }
}

/// [`pack`] of eight values: in each step every second field moves down beside its neighbour.
fn pack8<const BITS: usize>(values: &[u8; 8], shift: usize) -> u32 {
    const fn low(bits: usize, of: usize) -> u64 {
        u64::MAX / (u64::MAX >> (64 - of)) * ((1 << bits) - 1) // `bits` of every `of` bits
    }
    let mut x = (u64::from_le_bytes(*values) >> shift) & low(BITS, 8);
    x = (x | x >> (8 - BITS)) & low(2 * BITS, 16);
    x = (x | x >> (16 - 2 * BITS)) & low(4 * BITS, 32);
    (x | x >> (32 - 4 * BITS)) as u32 & (u32::MAX >> (32 - 8 * BITS))
}

/// Copies bytes into words, little-endian, filling the last word up with zeros.
pub(super) fn copy(bytes: &[u8], out: &mut [u32]) {
    let (words, rest) = bytes.as_chunks::<4>();
    for (word, b) in out.iter_mut().zip(words) {
        *word = u32::from_le_bytes(*b);
    }
    for (i, &b) in rest.iter().enumerate() {
        out[words.len()] |= u32::from(b) << (8 * i);
    }
}

/// Takes the bits `mask` from bit `shift` of each byte up and puts them at bit `to` of each quant.
pub(super) fn take(q: &mut [u8], bytes: &[u8], shift: usize, mask: u8, to: usize) {
    for (q, b) in q.iter_mut().zip(bytes) {
        *q |= (b >> shift & mask) << to;
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
    f16_value(half(b, at))
}

/// The value of an f16 (the `half` crate asks for CPU features at every call, which is slow here).
fn f16_value(half: u16) -> f32 {
    let size = u32::from(half & 0x7fff);
    let value = match size as u16 {
        0..SMALLEST_NORMAL => size as f32 * power_of_two(-24),
        SMALLEST_NORMAL..INFINITY => f32::from_bits((size << 13) + (112 << 23)),
        _ => f32::from_bits(size << 13 | 0xff << 23),
    };
    f32::from_bits(value.to_bits() | u32::from(half & 0x8000) << 16)
}

/// Writes an f16 at byte `at`.
pub(super) fn put_f16(b: &mut [u8], at: usize, value: f32) {
    b[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
}

/// Turns the two random bytes at `at` into an f16 of about this size and of either sign, which is
/// returned as it was rounded.
pub(super) fn random_f16(b: &mut [u8], at: usize, size: f32) -> f32 {
    let sign = if b[at] & 1 == 0 { 1.0 } else { -1.0 };
    let spread = 0.75 + f32::from(b[at + 1]) / 512.0;
    put_f16(b, at, sign * spread * size);
    f16(b, at)
}

/// Random bits as a number around 0, evenly spread with deviation 1.
pub(super) fn even(bits: u32) -> f32 {
    (bits as i32 as f32 + 0.5) / (1u64 << 31) as f32 * 3f32.sqrt()
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
    let mut q = [0; 256];
    for (j, q) in q.chunks_exact_mut(32).enumerate() {
        take(q, &qs[j / 4 * 32..], j % 4 * 2, 3, 0);
    }
    q
}

/// The power of two by which a row's f16 numbers are multiplied.
#[derive(Clone, Copy)]
pub(super) struct RowScale {
    exponent: i32,
    /// All numbers of the row are finite.
    finite: bool,
}

const INFINITY: u16 = 0x7c00;
const SMALLEST_NORMAL: u16 = 0x0400; // 2^-14

impl RowScale {
    /// From the bits of all f16 numbers of the row.
    pub(super) fn of(halves: impl Iterator<Item = u16>) -> RowScale {
        let (mut largest, mut most) = (0, 0);
        for size in halves.map(|h| h & 0x7fff) {
            most = most.max(size);
            largest = largest.max(if size < INFINITY { size } else { 0 });
        }
        let log2 = match largest {
            0 => 14, // nothing to scale
            1..SMALLEST_NORMAL => largest.ilog2() as i32 - 24,
            _ => i32::from(largest >> 10) - 15,
        };
        RowScale {
            exponent: 14 - log2,
            finite: most < INFINITY,
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
            let value = f16_value(size) * power_of_two(self.exponent); // exact
            if value >= power_of_two(-14) {
                ((value.to_bits() >> 13) - (112 << 10)) as u16
            } else if value >= power_of_two(-15) {
                SMALLEST_NORMAL
            } else {
                0
            }
        };
        u32::from(sign | scaled)
    }

    /// What the row's results must be multiplied by.
    pub(super) fn multiplier(self) -> f32 {
        match self.finite {
            true => power_of_two(-self.exponent),
            false => f32::NAN,
        }
    }
}

/// The multiplier of a row whose numbers, given as the bits of f32, are not scaled: 1, or NaN if one of
/// them is not finite.
pub(super) fn unscaled(numbers: impl Iterator<Item = u32>) -> f32 {
    const INFINITY: u32 = 0x7f80_0000;
    let largest = numbers.fold(0, |largest, n| largest.max(n & 0x7fff_ffff));
    if largest < INFINITY { 1.0 } else { f32::NAN }
}

fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
}
