// Writes the sums of four rows times COLS columns through `put` of slot sink.

// Columns `c` to c + 3 of two rows.
fn put4(c: u32, row: u32, v0: vec4<f32>, v1: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(
        put(c, row, v0.x, v1.x),
        put(c + 1u, row, v0.y, v1.y),
        put(c + 2u, row, v0.z, v1.z),
        put(c + 3u, row, v0.w, v1.w),
    );
}

// Writes rows `row` and `row + 1` (row is even), all columns; their squares.
fn put_columns(row: u32, s0: Sums, s1: Sums, scale: Sums) -> Sums {
    let m0 = row_mult(row);
    let m1 = row_mult(row + 1u);
    var q = Sums();
    if COLS == 1u {
        q.a.x = put(0u, row, s0.a.x * m0 * scale.a.x, s1.a.x * m1 * scale.a.x);
        return q;
    }
    q.a = put4(0u, row, s0.a * m0 * scale.a, s1.a * m1 * scale.a);
    if COLS > 4u {
        q.b = put4(4u, row, s0.b * m0 * scale.b, s1.b * m1 * scale.b);
    }
    if COLS > 8u {
        q.c = put4(8u, row, s0.c * m0 * scale.c, s1.c * m1 * scale.c);
    }
    if COLS > 12u {
        q.d = put4(12u, row, s0.d * m0 * scale.d, s1.d * m1 * scale.d);
    }
    return q;
}

// Writes up to four rows from `row` on; their squares.
fn put_rows(row: u32, s0: Sums, s1: Sums, s2: Sums, s3: Sums, scale: Sums) -> Sums {
    var q = Sums();
    if row < P.rows {
        q = put_columns(row, s0, s1, scale);
    }
    if row + 2u < P.rows {
        let p = put_columns(row + 2u, s2, s3, scale);
        q = Sums(q.a + p.a, q.b + p.b, q.c + p.c, q.d + p.d);
    }
    return q;
}
