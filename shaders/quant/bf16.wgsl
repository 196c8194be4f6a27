// BF16 rows: [4 words per block: 32 bf16, two per u32, the first one low].
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    unused: u32, // this type has no scales
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(0u);
}

// Four weights from two u32: a bf16 is the upper half of an f32.
fn quant_four(q: vec2<u32>) -> vec4<f32> {
    let bits = vec4<u32>(q.x << 16u, q.x, q.y << 16u, q.y);
    return bitcast<vec4<f32>>(bits & vec4<u32>(0xffff0000u));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let i = 4u * b;
    let q0 = wload(row, i);
    let q1 = wload(row, i + 1u);
    let q2 = wload(row, i + 2u);
    let q3 = wload(row, i + 3u);
    let q = W32(
        quant_four(q0.xy),
        quant_four(q0.zw),
        quant_four(q1.xy),
        quant_four(q1.zw),
        quant_four(q2.xy),
        quant_four(q2.zw),
        quant_four(q3.xy),
        quant_four(q3.zw),
    );
    return Q32(q, vec2<f32>(1.0), vec2<f32>());
}
