// slot weights = texture: a repacked matrix as texels of an rgba32uint texture, 2^P.tex_shift a line, for
// the lanes of matvec_rows. Rows come in tiles of 32: word i of all its rows, then word i + 1. Within
// a tile lies row 4 l + j at 8 j + l, so that eight neighbouring lanes of four rows each read
// neighbouring texels, and a matrix is read from its start to its end.
@group(0) @binding(1) var w: texture_storage_2d<rgba32uint, read>;

fn wword(i: u32) -> vec4<u32> {
    return textureLoad(w, vec2<u32>(i & ((1u << P.tex_shift) - 1u), i >> P.tex_shift));
}

// Where word 0 of row `r` lies, for `wload`.
fn row_at(r: u32) -> u32 {
    return (r / 32u) * 32u * P.row_vec4s + (r % 4u) * 8u + (r % 32u) / 4u;
}

// Word `i` of a row's record.
fn wload(row: u32, i: u32) -> vec4<u32> {
    return wword(row + 32u * i);
}
