// Q4_K rows: [nb words of 32 nibbles][one word of scales per group].
// Weight = (d * scale) * q - dmin * min.
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    s: vec4<u32>, // f16 d and dmin; low 4 bits of 8 scales; of 8 mins; high 2 bits of both
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    return Group(wload(row, nb + g));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let j = b & 7u;
    let dm = unpack2x16float(g.s.x);
    let high = g.s.w >> (2u * j);
    let scale = dm.x * f32(((g.s.y >> (4u * j)) & 15u) | ((high & 3u) << 4u));
    let low = dm.y * f32(((g.s.z >> (4u * j)) & 15u) | (((high >> 16u) & 3u) << 4u));
    let q = wload(row, b);
    let w = nibbles32(q);
    return Q32(w, vec2<f32>(16.0 * scale), vec2<f32>(-16.0 * scale - low));
}
