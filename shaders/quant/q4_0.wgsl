// Q4_0 rows: [nb words of 32 nibbles][f16 d, 8 per word]. Weight = d * (q - 8).
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    d: vec4<u32>, // 8 f16, one per block
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row + nb + g));
}

// Four weights from four nibbles of one u32.
fn quant_four(q: u32, at: vec4<u32>, d: f32) -> vec4<f32> {
    return d * (vec4<f32>((vec4<u32>(q) >> at) & vec4<u32>(15u)) - 8.0);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let q = wload(row + b);
    return W32(
        quant_four(q.x, QUANT_LOW, d),
        quant_four(q.x, QUANT_HIGH, d),
        quant_four(q.y, QUANT_LOW, d),
        quant_four(q.y, QUANT_HIGH, d),
        quant_four(q.z, QUANT_LOW, d),
        quant_four(q.z, QUANT_HIGH, d),
        quant_four(q.w, QUANT_LOW, d),
        quant_four(q.w, QUANT_HIGH, d),
    );
}
