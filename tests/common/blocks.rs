//! Where a block of each weight type holds floating-point numbers, so that random bytes can be made
//! into blocks whose weights are finite.

/// Byte positions in a block: of f16 numbers, and of the last (highest) byte of f32 and bf16 numbers.
pub fn floats(name: &str) -> (&'static [usize], &'static [usize]) {
    match name {
        "F32" => (&[], &[3]),
        "BF16" => (&[], &[1]),
        "F16" | "Q4_0" | "Q5_0" | "Q8_0" => (&[0], &[]),
        "Q4_1" | "Q5_1" | "Q4_K" | "Q5_K" => (&[0, 2], &[]),
        "Q2_K" => (&[80, 82], &[]),
        "Q3_K" => (&[108], &[]),
        "Q6_K" => (&[208], &[]),
        _ => panic!("{name}: write here where its block holds floating-point numbers"),
    }
}
