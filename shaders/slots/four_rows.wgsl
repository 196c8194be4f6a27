// What the products that hold four rows times COLS columns (slot columns) gather, and its output.

// A block of four neighbouring rows, and what a lane gathers for them (slot columns).
struct Quad {
    r0: Q32,
    r1: Q32,
    r2: Q32,
    r3: Q32,
}

struct Tile {
    r0: Acc,
    r1: Acc,
    r2: Acc,
    r3: Acc,
}

// One row times up to sixteen columns.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

// Columns `c` to c + 3 of two rows.
fn emit4(c: u32, row: u32, v0: vec4<f32>, v1: vec4<f32>) {
    emit(c, row, v0.x, v1.x);
    emit(c + 1u, row, v0.y, v1.y);
    emit(c + 2u, row, v0.z, v1.z);
    emit(c + 3u, row, v0.w, v1.w);
}

// Writes rows `row` and `row + 1` (row is even), all columns.
fn emit_columns(row: u32, s0: Sums, s1: Sums) {
    let m0 = row_mult(row);
    let m1 = row_mult(row + 1u);
    if COLS == 1u {
        emit(0u, row, s0.a.x * m0, s1.a.x * m1);
        return;
    }
    emit4(0u, row, s0.a * m0, s1.a * m1);
    if COLS > 4u {
        emit4(4u, row, s0.b * m0, s1.b * m1);
    }
    if COLS > 8u {
        emit4(8u, row, s0.c * m0, s1.c * m1);
    }
    if COLS > 12u {
        emit4(12u, row, s0.d * m0, s1.d * m1);
    }
}
