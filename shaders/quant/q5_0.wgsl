// Q5_0 rows: [nb words of 32 nibbles][high bits, one u32 per block][f16 d, 8 per word].
// Weight = d * (q - 16).
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    d: vec4<u32>,     // 8 f16, one per block
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = row + nb;
    let last = (nb - 1u) / 4u; // the last group may lack its second half
    let d = wload(i + last + 1u + g);
    return Group(d, wload(i + 2u * g), wload(i + min(2u * g + 1u, last)));
}

// Four 5-bit quants: nibbles of one u32, and bits 0..3 of `high` as their fifth bits.
fn quant_five(q: u32, at: vec4<u32>, high: u32) -> vec4<f32> {
    let fifth = ((vec4<u32>(high) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
    return vec4<f32>(((vec4<u32>(q) >> at) & vec4<u32>(15u)) | fifth);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let h = select(g.high0, g.high1, (b & 4u) != 0u)[b & 3u];
    let q = wload(row + b);
    return W32(
        d * (quant_five(q.x, QUANT_LOW, h) - 16.0),
        d * (quant_five(q.x, QUANT_HIGH, h >> 4u) - 16.0),
        d * (quant_five(q.y, QUANT_LOW, h >> 8u) - 16.0),
        d * (quant_five(q.y, QUANT_HIGH, h >> 12u) - 16.0),
        d * (quant_five(q.z, QUANT_LOW, h >> 16u) - 16.0),
        d * (quant_five(q.z, QUANT_HIGH, h >> 20u) - 16.0),
        d * (quant_five(q.w, QUANT_LOW, h >> 24u) - 16.0),
        d * (quant_five(q.w, QUANT_HIGH, h >> 28u) - 16.0),
    );
}
