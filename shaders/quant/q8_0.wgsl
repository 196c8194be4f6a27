// Q8_0 rows: [2 words of 32 i8 per block][f16 d, 8 per word]. Weight = d * q.
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    d: vec4<u32>, // 8 f16, one per block
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row, 2u * nb + g));
}

// Four i8 of one u32, as 1 + (q + 128) / 256.
fn quant_four(q: u32) -> vec4<f32> {
    let u = q ^ 0x80808080u;
    return unit(vec4<u32>(u << 15u, u << 7u, u >> 1u, u >> 9u) & vec4<u32>(255u << 15u));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let q0 = wload(row, 2u * b);
    let q1 = wload(row, 2u * b + 1u);
    let w = W32(
        quant_four(q0.x),
        quant_four(q0.y),
        quant_four(q0.z),
        quant_four(q0.w),
        quant_four(q1.x),
        quant_four(q1.y),
        quant_four(q1.z),
        quant_four(q1.w),
    );
    return Q32(w, vec2<f32>(256.0 * d), vec2<f32>(-384.0 * d));
}
