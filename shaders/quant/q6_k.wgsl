// Q6_K rows: [nb words of 32 low nibbles][2 u32 of 16 high parts per block]
// [one word of 16 i8 scales per group][f32 d, 4 groups per word].
// Weight = (d * scale) * (q - 32).
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>, // 16 i8 scales
    d: f32,
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = nb + nb / 2u; // 8 blocks in every group
    let d = wload(row, i + nb / 8u + (g >> 2u))[g & 3u];
    return Group(wload(row, i + g), bitcast<f32>(d));
}

// Four 6-bit quants, nibbles of one u32 and the lowest four 2-bit fields of `high` above them, as 1 + q / 64.
fn quant_six(q: u32, high: u32) -> vec4<f32> {
    let low = (vec4<u32>(q) << vec4<u32>(17u, 13u, 9u, 5u)) & vec4<u32>(15u << 17u);
    return unit(low | ((vec4<u32>(high) << vec4<u32>(21u, 19u, 17u, 15u)) & vec4<u32>(3u << 21u)));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let s = i32(g.s[(b & 7u) >> 1u]) >> (16u * (b & 1u)); // the two scales of this block
    let s0 = g.d * f32((s << 24u) >> 24u);
    let s1 = g.d * f32((s << 16u) >> 24u);
    let h = wload(row, nb + (b >> 1u));
    let h0 = h[2u * (b & 1u)];
    let h1 = h[2u * (b & 1u) + 1u];
    let q = wload(row, b);
    let w = W32(
        quant_six(q.x, h0),
        quant_six(q.x >> 16u, h0 >> 8u),
        quant_six(q.y, h0 >> 16u),
        quant_six(q.y >> 16u, h0 >> 24u),
        quant_six(q.z, h1),
        quant_six(q.z >> 16u, h1 >> 8u),
        quant_six(q.w, h1 >> 16u),
        quant_six(q.w >> 16u, h1 >> 24u),
    );
    return Q32(w, 64.0 * vec2<f32>(s0, s1), -96.0 * vec2<f32>(s0, s1)); // s (q - 32)
}
