// The epilogue of all products: row multipliers, and where results go.
#use activation

fn row_mult(row: u32) -> f32 {
    return bitcast<f32>(wword(P.mult + row / 4u)[row & 3u]);
}

// What is no finite number stays so: a cap would hide that a model has come apart.
fn capped(v: f32) -> f32 {
    let c = P.softcap * tanh(clamp(v / P.softcap, -15.0, 15.0));
    return select(c, v, (bitcast<u32>(v) & 0x7fffffffu) >= 0x7f800000u);
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
    var i = c * P.out_stride + P.out_row + row;
    var a = v0;
    var b = v1;
    var both = row + 1u < P.rows;
    if mode >= 2u {
        i = c * P.out_stride + (P.out_row + row) / 2u;
        a = v0 * sigmoid(select(gelu_arg(v0), v0, mode == 2u)) * v1;
        both = false;
    } else if mode == 1u {
        a += out[i];
        if both {
            b += out[i + 1u];
        }
    } else if P.softcap > f32(zero) {
        a = capped(v0);
        b = capped(v1);
    }
    out[i] = a;
    if both {
        out[i + 1u] = b;
    }
}
