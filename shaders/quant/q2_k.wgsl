// Q2_K rows: [2 u32 of 16 quants per block][one word per group: 16 bytes scale | min << 4]
// [f16 d and dmin in one u32 per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>, // 16 bytes scale | min << 4
    dm: vec2<f32>,
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = nb / 2u; // 8 blocks in every group
    let dm = wload(row, i + nb / 8u + (g >> 2u))[g & 3u];
    return Group(wload(row, i + g), unpack2x16float(dm));
}

// The lowest four 2-bit fields of `q`, as 1 + q / 4.
fn quant_four(q: u32) -> vec4<f32> {
    return unit((vec4<u32>(q) << vec4<u32>(21u, 19u, 17u, 15u)) & vec4<u32>(3u << 21u));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let s = g.s[(b & 7u) >> 1u] >> (16u * (b & 1u)); // the two bytes of this block
    let sm0 = g.dm * vec2<f32>(vec2<u32>(s, s >> 4u) & vec2<u32>(15u));
    let sm1 = g.dm * vec2<f32>(vec2<u32>(s >> 8u, s >> 12u) & vec2<u32>(15u));
    let q = wload(row, b >> 1u);
    let q0 = q[2u * (b & 1u)];
    let q1 = q[2u * (b & 1u) + 1u];
    let w = W32(
        quant_four(q0),
        quant_four(q0 >> 8u),
        quant_four(q0 >> 16u),
        quant_four(q0 >> 24u),
        quant_four(q1),
        quant_four(q1 >> 8u),
        quant_four(q1 >> 16u),
        quant_four(q1 >> 24u),
    );
    let s4 = 4.0 * vec2<f32>(sm0.x, sm1.x);
    return Q32(w, s4, -s4 - vec2<f32>(sm0.y, sm1.y));
}
