// Q2_K rows: [2 u32 of 16 quants per block][one word per group: 16 bytes scale | min << 4]
// [f16 d and dmin in one u32 per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>, // 16 bytes scale | min << 4
    dm: vec2<f32>,
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = row + nb / 2u; // 8 blocks in every group
    let dm = wload(i + nb / 8u + (g >> 2u))[g & 3u];
    return Group(wload(i + g), unpack2x16float(dm));
}

// Four weights from the lowest four 2-bit fields of `q`; `sm` = d * scale, dmin * min.
fn quant_four(q: u32, sm: vec2<f32>) -> vec4<f32> {
    return sm.x * vec4<f32>((vec4<u32>(q) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) - sm.y;
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let s = g.s[(b & 7u) >> 1u] >> (16u * (b & 1u)); // the two bytes of this block
    let sm0 = g.dm * vec2<f32>(vec2<u32>(s, s >> 4u) & vec2<u32>(15u));
    let sm1 = g.dm * vec2<f32>(vec2<u32>(s >> 8u, s >> 12u) & vec2<u32>(15u));
    let q = wload(row + (b >> 1u));
    let q0 = q[2u * (b & 1u)];
    let q1 = q[2u * (b & 1u) + 1u];
    return W32(
        quant_four(q0, sm0),
        quant_four(q0 >> 8u, sm0),
        quant_four(q0 >> 16u, sm0),
        quant_four(q0 >> 24u, sm0),
        quant_four(q1, sm1),
        quant_four(q1 >> 8u, sm1),
        quant_four(q1 >> 16u, sm1),
        quant_four(q1 >> 24u, sm1),
    );
}
