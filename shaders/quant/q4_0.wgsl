// Q4_0 rows: [nb words of 32 nibbles][f16 d, 8 per word]. Weight = d * (q - 8).
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    d: vec4<u32>, // 8 f16, one per block
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row, nb + g));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let q = wload(row, b);
    let w = nibbles32(q);
    return Q32(w, vec2<f32>(16.0 * d), vec2<f32>(-24.0 * d)); // d (q - 8)
}
