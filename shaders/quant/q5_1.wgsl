// Q5_1 rows: [nb words of 32 nibbles][high bits, one u32 per block]
// [f16 d, f16 m in one u32 per block].
// Weight = d * q + m.
//
// Fills the slot `quant`: needs Q32 (types.wgsl) and `wload` (slot `weights`).

struct Group {
    high0: vec4<u32>, // high bits of blocks 0 to 3 of the group
    high1: vec4<u32>, // and of blocks 4 to 7
    dm0: vec4<u32>,   // f16 d and m of blocks 0 to 3
    dm1: vec4<u32>,   // and of blocks 4 to 7
}

// Scales of group `g` (weights 256g .. 256g+255) of the row at `row` (`row_at` of slot `weights`).
fn quant_group(row: u32, g: u32, nb: u32) -> Group {
    let last = (nb - 1u) / 4u; // the last group may lack its second half
    let high = nb;
    let dm = high + last + 1u;
    let second = min(2u * g + 1u, last);
    return Group(
        wload(row, high + 2u * g),
        wload(row, high + second),
        wload(row, dm + 2u * g),
        wload(row, dm + second),
    );
}

// The 32 weights of block `b`, which lies in the group of `g`, before the row multiplier.
fn quant_load32(row: u32, b: u32, nb: u32, g: Group) -> Q32 {
    let second = (b & 4u) != 0u;
    let dm = unpack2x16float(select(g.dm0, g.dm1, second)[b & 3u]);
    let h = select(g.high0, g.high1, second)[b & 3u];
    let q = wload(row, b);
    let w = five_bits32(q, h);
    return Q32(w, vec2<f32>(32.0 * dm.x), vec2<f32>(dm.y - 32.0 * dm.x));
}
