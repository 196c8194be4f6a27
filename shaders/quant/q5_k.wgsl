// Q5_K rows: [nb words of 32 nibbles][high bits, one u32 per block][one word of scales per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>, // f16 d and dmin; low 4 bits of 8 scales; of 8 mins; high 2 bits of both
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let high = nb + 2u * g; // 8 blocks in every group, so nb / 4 words of high bits
    return Group(wload(row, nb + nb / 4u + g), wload(row, high), wload(row, high + 1u));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let j = b & 7u;
    let dm = unpack2x16float(g.s.x);
    let high = g.s.w >> (2u * j);
    let scale = dm.x * f32(((g.s.y >> (4u * j)) & 15u) | ((high & 3u) << 4u));
    let low = dm.y * f32(((g.s.z >> (4u * j)) & 15u) | (((high >> 16u) & 3u) << 4u));
    let h = select(g.high0, g.high1, j >= 4u)[b & 3u];
    let q = wload(row, b);
    let w = five_bits32(q, h);
    return Q32(w, vec2<f32>(32.0 * scale), vec2<f32>(-32.0 * scale - low));
}
