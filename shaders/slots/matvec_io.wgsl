// Shared by matvec, matvec_rows and matmul: parameters, output and epilogue.
#use types
#use activation

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
    norm_n: u32,    // scale = norm: elements the sums are of
    eps: f32,       // scale = norm
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn row_mult(row: u32) -> f32 {
    return bitcast<f32>(wword(P.mult + row / 4u)[row & 3u]);
}

// Writes rows `row` and `row + 1` (row is even) of column `c`, already multiplied out.
fn emit(c: u32, row: u32, v0: f32, v1: f32) {
    // 0, unknown to compilers. Mesa's software device recompiles a shader at every dispatch for the values of
    // the uniforms that branches depend on and on nothing else, where that makes it half as long.
    let zero = row >> 31u;
    let mode = P.mode + zero;
    if c >= P.n_cols + zero || row >= P.rows {
        return;
    }
    if mode >= 2u {
        let i = c * P.out_stride + (P.out_row + row) / 2u;
        if mode == 2u {
            out[i] = silu(v0) * v1;
        } else {
            out[i] = gelu(v0) * v1;
        }
        return;
    }
    let i = c * P.out_stride + P.out_row + row;
    let both = row + 1u < P.rows;
    if mode == 1u {
        out[i] += v0;
        if both {
            out[i + 1u] += v1;
        }
    } else if P.softcap > f32(zero) {
        out[i] = P.softcap * tanh(clamp(v0 / P.softcap, -15.0, 15.0));
        if both {
            out[i + 1u] = P.softcap * tanh(clamp(v1 / P.softcap, -15.0, 15.0));
        }
    } else {
        out[i] = v0;
        if both {
            out[i + 1u] = v1;
        }
    }
}
