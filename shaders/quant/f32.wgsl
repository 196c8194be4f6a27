// F32 rows: [8 words per block: 32 f32].
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    unused: u32, // this type has no scales
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(0u);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let i = row + 8u * b;
    return W32(
        bitcast<vec4<f32>>(wload(i)),
        bitcast<vec4<f32>>(wload(i + 1u)),
        bitcast<vec4<f32>>(wload(i + 2u)),
        bitcast<vec4<f32>>(wload(i + 3u)),
        bitcast<vec4<f32>>(wload(i + 4u)),
        bitcast<vec4<f32>>(wload(i + 5u)),
        bitcast<vec4<f32>>(wload(i + 6u)),
        bitcast<vec4<f32>>(wload(i + 7u)),
    );
}
