// Q4_K rows: [nb words of 32 nibbles][one word of scales per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    s: vec4<u32>, // f16 d and dmin; low 4 bits of 8 scales; of 8 mins; high 2 bits of both
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row + nb + g));
}

// Four weights from four nibbles of one u32.
fn quant_four(q: u32, at: vec4<u32>, scale: f32, low: f32) -> vec4<f32> {
    return scale * vec4<f32>((vec4<u32>(q) >> at) & vec4<u32>(15u)) - low;
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let j = b & 7u;
    let dm = unpack2x16float(g.s.x);
    let high = g.s.w >> (2u * j);
    let scale = dm.x * f32(((g.s.y >> (4u * j)) & 15u) | ((high & 3u) << 4u));
    let low = dm.y * f32(((g.s.z >> (4u * j)) & 15u) | (((high >> 16u) & 3u) << 4u));
    let q = wload(row + b);
    return W32(
        quant_four(q.x, QUANT_LOW, scale, low),
        quant_four(q.x, QUANT_HIGH, scale, low),
        quant_four(q.y, QUANT_LOW, scale, low),
        quant_four(q.y, QUANT_HIGH, scale, low),
        quant_four(q.z, QUANT_LOW, scale, low),
        quant_four(q.z, QUANT_HIGH, scale, low),
        quant_four(q.w, QUANT_LOW, scale, low),
        quant_four(q.w, QUANT_HIGH, scale, low),
    );
}
