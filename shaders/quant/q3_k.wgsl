// Q3_K rows: [2 u32 of 16 low parts per block][high bits, one u32 per block][one word per group:
// f32 d; low 4 bits of the 16 scales in two u32; their high 2 bits].
// Weight = (d * (scale - 32)) * (q - 4).
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>,
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let high = nb / 2u; // 8 blocks in every group
    let s = wload(row, high + nb / 4u + g);
    return Group(s, wload(row, high + 2u * g), wload(row, high + 2u * g + 1u));
}

// Scale `i` (0 to 15) of a group.
fn quant_scale(s: vec4<u32>, i: u32) -> f32 {
    let low = (select(s.y, s.z, i >= 8u) >> (4u * (i & 7u))) & 15u;
    let high = (s.w >> (2u * i)) & 3u;
    return bitcast<f32>(s.x) * (f32(low | (high << 4u)) - 32.0);
}

// Four 3-bit quants, the lowest four 2-bit fields of `q` and bits 0..3 of `high` above them, as 1 + q / 8.
fn quant_three(q: u32, high: u32) -> vec4<f32> {
    let low = (vec4<u32>(q) << vec4<u32>(20u, 18u, 16u, 14u)) & vec4<u32>(3u << 20u);
    return unit(low | ((vec4<u32>(high) << vec4<u32>(22u, 21u, 20u, 19u)) & vec4<u32>(1u << 22u)));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let j = b & 7u;
    let s0 = quant_scale(g.s, 2u * j);
    let s1 = quant_scale(g.s, 2u * j + 1u);
    let h = select(g.high0, g.high1, j >= 4u)[b & 3u];
    let q = wload(row, b >> 1u);
    let q0 = q[2u * (b & 1u)];
    let q1 = q[2u * (b & 1u) + 1u];
    let w = W32(
        quant_three(q0, h),
        quant_three(q0 >> 8u, h >> 4u),
        quant_three(q0 >> 16u, h >> 8u),
        quant_three(q0 >> 24u, h >> 12u),
        quant_three(q1, h >> 16u),
        quant_three(q1 >> 8u, h >> 20u),
        quant_three(q1 >> 16u, h >> 24u),
        quant_three(q1 >> 24u, h >> 28u),
    );
    return Q32(w, 8.0 * vec2<f32>(s0, s1), -12.0 * vec2<f32>(s0, s1)); // s (q - 4)
}
