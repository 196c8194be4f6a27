// slot weights = storage: a repacked matrix as plain 16-byte words, one row record after the other.
@group(0) @binding(1) var<storage, read> w: array<vec4<u32>>;

// Where the record of row `r` lies, for `wload`.
fn row_at(r: u32) -> u32 {
    return r * P.row_vec4s;
}

// Word `i` of a row's record.
fn wload(row: u32, i: u32) -> vec4<u32> {
    return w[row + i];
}

// Word `i` of the whole resource.
fn wword(i: u32) -> vec4<u32> {
    return w[i];
}
