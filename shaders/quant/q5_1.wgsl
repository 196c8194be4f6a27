// Q5_1 rows: [nb words of 32 nibbles][high bits, one u32 per block]
// [f16 d, f16 m in one u32 per block].
// Weight = d * q + m.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
    dm0: vec4<u32>,   // f16 d and m of blocks 0 to 3
    dm1: vec4<u32>,   // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let last = (nb - 1u) / 4u; // the last group may lack its second half
    let high = row + nb;
    let dm = high + last + 1u;
    let second = min(2u * g + 1u, last);
    return Group(
        wload(high + 2u * g),
        wload(high + second),
        wload(dm + 2u * g),
        wload(dm + second),
    );
}

// Four 5-bit quants: nibbles of one u32, and bits 0..3 of `high` as their fifth bits.
fn quant_five(q: u32, at: vec4<u32>, high: u32) -> vec4<f32> {
    let fifth = ((vec4<u32>(high) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
    return vec4<f32>(((vec4<u32>(q) >> at) & vec4<u32>(15u)) | fifth);
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let second = (b & 4u) != 0u;
    let dm = unpack2x16float(select(g.dm0, g.dm1, second)[b & 3u]);
    let h = select(g.high0, g.high1, second)[b & 3u];
    let q = wload(row + b);
    return W32(
        dm.x * quant_five(q.x, QUANT_LOW, h) + dm.y,
        dm.x * quant_five(q.x, QUANT_HIGH, h >> 4u) + dm.y,
        dm.x * quant_five(q.y, QUANT_LOW, h >> 8u) + dm.y,
        dm.x * quant_five(q.y, QUANT_HIGH, h >> 12u) + dm.y,
        dm.x * quant_five(q.z, QUANT_LOW, h >> 16u) + dm.y,
        dm.x * quant_five(q.z, QUANT_HIGH, h >> 20u) + dm.y,
        dm.x * quant_five(q.w, QUANT_LOW, h >> 24u) + dm.y,
        dm.x * quant_five(q.w, QUANT_HIGH, h >> 28u) + dm.y,
    );
}
