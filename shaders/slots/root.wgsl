// 1 / sqrt of a mean of squares, and NaN where the mean is beyond f32: a norm would make zeros of numbers
// that are too large, and the answer would be wrong without a word.
fn inverse_root(mean: f32) -> f32 {
    let bits = bitcast<u32>(mean);
    return select(1.0 / sqrt(mean), bitcast<f32>(bits | 0x7fc00000u), bits >= 0x7f800000u);
}
