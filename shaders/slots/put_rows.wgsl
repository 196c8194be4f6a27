// Writes the sums of four rows times COLS columns through `put` of slot sink.
fn of_column(s: Sums, c: u32) -> f32 {
    if COLS == 1u {
        return s.a.x;
    }
    var v = s.a;
    if COLS > 4u {
        v = select(v, s.b, c >= 4u);
    }
    if COLS > 8u {
        v = select(v, s.c, c >= 8u);
    }
    if COLS > 12u {
        v = select(v, s.d, c >= 12u);
    }
    return v[c & 3u];
}

// What `put` returned for column `c`, at its place in zeros.
fn as_column(v: f32, c: u32) -> Sums {
    let i = vec4<u32>(0u, 1u, 2u, 3u);
    let z = vec4<f32>();
    var s = Sums();
    s.a = select(z, vec4<f32>(v), i == vec4<u32>(c));
    if COLS > 4u {
        s.b = select(z, vec4<f32>(v), i + 4u == vec4<u32>(c));
    }
    if COLS > 8u {
        s.c = select(z, vec4<f32>(v), i + 8u == vec4<u32>(c));
    }
    if COLS > 12u {
        s.d = select(z, vec4<f32>(v), i + 12u == vec4<u32>(c));
    }
    return s;
}

// Writes up to four rows from `row` on (a multiple of four); their squares.
fn put_rows(row: u32, s0: Sums, s1: Sums, s2: Sums, s3: Sums, scale: Sums) -> Sums {
    let m = bitcast<vec4<f32>>(wword(P.mult + min(row, P.rows - 1u) / 4u));
    var q = Sums();
    // Compilers do not know how often this goes round: unrolled, it is up to 32 epilogues to compile.
    let end = 2u * COLS + (row >> 31u);
    var i = 0u;
    loop {
        let c = i / 2u;
        let low = (i & 1u) == 1u; // the last two rows
        let v0 = select(of_column(s0, c) * m.x, of_column(s2, c) * m.z, low);
        let v1 = select(of_column(s1, c) * m.y, of_column(s3, c) * m.w, low);
        let k = of_column(scale, c);
        let squares = put(c, row + 2u * (i & 1u), v0 * k, v1 * k);
        if SQUARES {
            let p = as_column(squares, c);
            q = Sums(q.a + p.a, q.b + p.b, q.c + p.c, q.d + p.d);
        }
        i++;
        continuing {
            break if i >= end;
        }
    }
    return q;
}
