// Shared by all products: parameters and output.
#use types

struct Params {
    nb: u32,        // blocks of 32 weights in a (padded) row
    row_vec4s: u32, // 16-byte words of a repacked row
    mult: u32,      // first word of the row multipliers (four rows a word)
    rows: u32,      // rows of this shard
    out_row: u32,   // first output row of this shard
    tex_shift: u32, // log2 of the texture's line length (weights = texture)
    x_stride: u32,  // vec4 from column to column of x
    out_stride: u32, // f32 from column to column of out
    n_cols: u32,    // columns of this dispatch
    mode: u32,      // 0 store, 1 add, 2 SiLU(row 2i) * row 2i+1, 3 GELU(row 2i) * row 2i+1
    softcap: f32,   // 0: none, else c * tanh(v / c)
    parts: u32,     // slots scale, sink = norm: vec4 of partial sums of squares per column
    part_rows: u32, // sink = norm: rows that share a partial sum
    norm_n: u32,    // scale, sink = norm: elements the sums are of
    eps: f32,       // scale = norm
    row_vec4s2: u32, // matvec2, matvec_rows2: of the second matrix, what the names without 2 are of the first
    mult2: u32,
    rows2: u32,
    out_row2: u32,
    tex_shift2: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
