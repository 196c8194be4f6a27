// Q6_K rows: [nb words of 32 low nibbles][2 u32 of 16 high parts per block]
// [one word of 16 i8 scales per group][f32 d, 4 groups per word].
// Weight = (d * scale) * (q - 32).
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    s: vec4<u32>, // 16 i8 scales
    d: f32,
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = row + nb + nb / 2u; // 8 blocks in every group
    let d = wload(i + nb / 8u + (g >> 2u))[g & 3u];
    return Group(wload(i + g), bitcast<f32>(d));
}

// Four weights: nibbles of one u32, and the lowest four 2-bit fields of `high` above them.
fn quant_four(q: u32, at: vec4<u32>, high: u32, scale: f32) -> vec4<f32> {
    let low = (vec4<u32>(q) >> at) & vec4<u32>(15u);
    let top = ((vec4<u32>(high) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u)) << vec4<u32>(4u);
    return scale * (vec4<f32>(low | top) - 32.0);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let s = i32(g.s[(b & 7u) >> 1u]) >> (16u * (b & 1u)); // the two scales of this block
    let s0 = g.d * f32((s << 24u) >> 24u);
    let s1 = g.d * f32((s << 16u) >> 24u);
    let h = wload(row + nb + (b >> 1u));
    let h0 = h[2u * (b & 1u)];
    let h1 = h[2u * (b & 1u) + 1u];
    let q = wload(row + b);
    return W32(
        quant_four(q.x, QUANT_LOW, h0, s0),
        quant_four(q.x, QUANT_HIGH, h0 >> 8u, s0),
        quant_four(q.y, QUANT_LOW, h0 >> 16u, s0),
        quant_four(q.y, QUANT_HIGH, h0 >> 24u, s0),
        quant_four(q.z, QUANT_LOW, h1, s1),
        quant_four(q.z, QUANT_HIGH, h1 >> 8u, s1),
        quant_four(q.w, QUANT_LOW, h1 >> 16u, s1),
        quant_four(q.w, QUANT_HIGH, h1 >> 24u, s1),
    );
}
