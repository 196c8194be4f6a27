// F32 rows: [8 words per block: 32 f32].
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    unused: u32, // this type has no scales
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(0u);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let i = 8u * b;
    let q = W32(
        bitcast<vec4<f32>>(wload(row, i)),
        bitcast<vec4<f32>>(wload(row, i + 1u)),
        bitcast<vec4<f32>>(wload(row, i + 2u)),
        bitcast<vec4<f32>>(wload(row, i + 3u)),
        bitcast<vec4<f32>>(wload(row, i + 4u)),
        bitcast<vec4<f32>>(wload(row, i + 5u)),
        bitcast<vec4<f32>>(wload(row, i + 6u)),
        bitcast<vec4<f32>>(wload(row, i + 7u)),
    );
    return Q32(q, vec2<f32>(1.0), vec2<f32>());
}
