// slot sink = norm: results are added to the residual stream, and the RMS norm that follows is begun:
//   out += v;  hn = out * gain;  and out^2 summed up per P.part_rows rows.
// Whoever multiplies with hn divides by the root (slot scale = norm).
//   hn: as out; gain: [rows of all shards]; sums_out: [columns, parts rounded up to 16] vec4, zero behind the last.
@group(0) @binding(5) var<storage, read_write> hn: array<f32>;
@group(0) @binding(6) var<storage, read> gain: array<f32>;
@group(0) @binding(7) var<storage, read_write> sums_out: array<f32>;

const SQUARES = true;

// Rows `row` and `row + 1` of column `c`; the sum of their squares.
fn put(c: u32, row: u32, v0: f32, v1: f32) -> f32 {
    if c >= P.n_cols || row >= P.rows {
        return 0.0;
    }
    let r = P.out_row + row;
    let i = c * P.out_stride + r;
    let a = out[i] + v0;
    out[i] = a;
    hn[i] = a * gain[r];
    if row + 1u >= P.rows {
        return a * a;
    }
    let b = out[i + 1u] + v1;
    out[i + 1u] = b;
    hn[i + 1u] = b * gain[r + 1u];
    return a * a + b * b;
}

fn close4(c: u32, row: u32, squares: vec4<f32>) {
    let at = (P.out_row + row) / P.part_rows;
    let stride = (P.parts + 15u) / 16u * 64u;
    // The last part also clears what is left of its vec4.
    let end = select(at + 1u, 4u * P.parts, at == (P.norm_n - 1u) / P.part_rows);
    for (var i = 0u; i < min(4u, P.n_cols - min(P.n_cols, c)); i++) {
        let column = (c + i) * stride;
        sums_out[column + at] = squares[i];
        for (var j = at + 1u; j < end; j++) {
            sums_out[column + j] = 0.0;
        }
    }
}

// Stores the squares of the rows from `row` on (one lane of those that share a partial sum).
fn close(row: u32, squares: Sums) {
    close4(0u, row, squares.a);
    if COLS > 4u {
        close4(4u, row, squares.b);
    }
    if COLS > 8u {
        close4(8u, row, squares.c);
    }
    if COLS > 12u {
        close4(12u, row, squares.d);
    }
}
