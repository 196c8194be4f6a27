// Q8_0 rows: [2 words of 32 i8 per block][f16 d, 8 per word]. Weight = d * q.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    d: vec4<u32>, // 8 f16, one per block
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row + 2u * nb + g));
}

// Four weights from one u32 of four i8.
fn quant_four(q: u32, d: f32) -> vec4<f32> {
    return d * vec4<f32>((vec4<i32>(i32(q)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let q0 = wload(row + 2u * b);
    let q1 = wload(row + 2u * b + 1u);
    return W32(
        quant_four(q0.x, d),
        quant_four(q0.y, d),
        quant_four(q0.z, d),
        quant_four(q0.w, d),
        quant_four(q1.x, d),
        quant_four(q1.y, d),
        quant_four(q1.z, d),
        quant_four(q1.w, d),
    );
}
