// Q5_0 rows: [nb words of 32 nibbles][high bits, one u32 per block][f16 d, 8 per word].
// Weight = d * (q - 16).
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    d: vec4<u32>,     // 8 f16, one per block
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let i = nb;
    let last = (nb - 1u) / 4u; // the last group may lack its second half
    let d = wload(row, i + last + 1u + g);
    return Group(d, wload(row, i + 2u * g), wload(row, i + min(2u * g + 1u, last)));
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let d = unpack2x16float(g.d[(b & 7u) >> 1u])[b & 1u];
    let h = select(g.high0, g.high1, (b & 4u) != 0u)[b & 3u];
    let q = wload(row, b);
    let w = five_bits32(q, h);
    return Q32(w, vec2<f32>(32.0 * d), vec2<f32>(-48.0 * d)); // d (q - 16)
}
