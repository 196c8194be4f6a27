// Embedding rows: out[c, :] = scale * W[token of column c, :].
//   w: repacked matrix [rows, 32 nb], rows row0 .. row0 + rows of the whole; cols: columns; out: f32.
// One lane does one block of 32 weights of one column; a column whose token lies in another shard
// is left alone.
#use types
#use weights
#use quant

struct Params {
    nb: u32,
    row_vec4s: u32,
    mult: u32,
    rows: u32,
    row0: u32,
    tex_shift: u32,
    out_stride: u32, // vec4 from column to column
    scale: f32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(2) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;

override WG: u32 = 32u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let b = wid.x * WG + lid;
    let token = cols[1u + wid.y].x;
    if b >= P.nb || token < P.row0 || token >= P.row0 + P.rows {
        return;
    }
    let r = token - P.row0;
    let m = P.scale * bitcast<f32>(wword(P.mult + r / 4u)[r & 3u]);
    let row = row_at(r);
    let q = weights32(quant_load32(row, b, P.nb, quant_group(row, b / 8u, P.nb)));
    let o = wid.y * P.out_stride + b * 8u;
    out[o] = q.w0 * m;
    out[o + 1u] = q.w1 * m;
    out[o + 2u] = q.w2 * m;
    out[o + 3u] = q.w3 * m;
    out[o + 4u] = q.w4 * m;
    out[o + 5u] = q.w5 * m;
    out[o + 6u] = q.w6 * m;
    out[o + 7u] = q.w7 * m;
}
