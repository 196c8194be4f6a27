// Q5_K rows: [nb words of 32 nibbles][high bits, one u32 per block][one word of scales per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    s: vec4<u32>, // f16 d and dmin; low 4 bits of 8 scales; of 8 mins; high 2 bits of both
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let high = row + nb + 2u * g; // 8 blocks in every group, so nb / 4 words of high bits
    return Group(wload(row + nb + nb / 4u + g), wload(high), wload(high + 1u));
}

// Four 5-bit quants: nibbles of one u32, and bits 0..3 of `high` as their fifth bits.
fn quant_five(q: u32, at: vec4<u32>, high: u32) -> vec4<f32> {
    let fifth = ((vec4<u32>(high) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
    return vec4<f32>(((vec4<u32>(q) >> at) & vec4<u32>(15u)) | fifth);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let j = b & 7u;
    let dm = unpack2x16float(g.s.x);
    let high = g.s.w >> (2u * j);
    let scale = dm.x * f32(((g.s.y >> (4u * j)) & 15u) | ((high & 3u) << 4u));
    let low = dm.y * f32(((g.s.z >> (4u * j)) & 15u) | (((high >> 16u) & 3u) << 4u));
    let h = select(g.high0, g.high1, j >= 4u)[b & 3u];
    let q = wload(row + b);
    return W32(
        scale * quant_five(q.x, QUANT_LOW, h) - low,
        scale * quant_five(q.x, QUANT_HIGH, h >> 4u) - low,
        scale * quant_five(q.y, QUANT_LOW, h >> 8u) - low,
        scale * quant_five(q.y, QUANT_HIGH, h >> 12u) - low,
        scale * quant_five(q.z, QUANT_LOW, h >> 16u) - low,
        scale * quant_five(q.z, QUANT_HIGH, h >> 20u) - low,
        scale * quant_five(q.w, QUANT_LOW, h >> 24u) - low,
        scale * quant_five(q.w, QUANT_HIGH, h >> 28u) - low,
    );
}
