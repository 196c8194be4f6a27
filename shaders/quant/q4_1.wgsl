// Q4_1 rows: [nb words of 32 nibbles][f16 d, f16 m in one u32 per block]. Weight = d * q + m.
//
// Fills the slot `quant`: needs W32 (types.wgsl) and `wload` (slot `weights`).

const QUANT_LOW = vec4<u32>(0u, 4u, 8u, 12u);
const QUANT_HIGH = vec4<u32>(16u, 20u, 24u, 28u);

struct Group {
    dm0: vec4<u32>, // f16 d and m of blocks 0 to 3 of the group
    dm1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row whose record starts at word `row`.
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = row + nb;
    let last = (nb - 1u) / 4u; // the last group may lack its second half
    return Group(wload(i + 2u * g), wload(i + min(2u * g + 1u, last)));
}

// Four weights from four nibbles of one u32.
fn quant_four(q: u32, at: vec4<u32>, dm: vec2<f32>) -> vec4<f32> {
    return dm.x * vec4<f32>((vec4<u32>(q) >> at) & vec4<u32>(15u)) + dm.y;
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> W32 {
    let dm = unpack2x16float(select(g.dm0, g.dm1, (b & 4u) != 0u)[b & 3u]);
    let q = wload(row + b);
    return W32(
        quant_four(q.x, QUANT_LOW, dm),
        quant_four(q.x, QUANT_HIGH, dm),
        quant_four(q.y, QUANT_LOW, dm),
        quant_four(q.y, QUANT_HIGH, dm),
        quant_four(q.z, QUANT_LOW, dm),
        quant_four(q.z, QUANT_HIGH, dm),
        quant_four(q.w, QUANT_LOW, dm),
        quant_four(q.w, QUANT_HIGH, dm),
    );
}
