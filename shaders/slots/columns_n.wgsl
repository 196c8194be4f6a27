// slot columns = n: COLS activation columns, 2 to 16, in one pass over the weights.
override COLS: u32 = 8u;

struct Acc {
    a: vec4<f32>, // columns 0 to 3
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>, // columns 12 to 15
}

// Weights are scaled before they meet the columns: that is once instead of once per column.
fn dot32(q: W32, x: W32) -> f32 {
    let a = fma(q.w3, x.w3, fma(q.w2, x.w2, fma(q.w1, x.w1, q.w0 * x.w0)));
    let b = fma(q.w7, x.w7, fma(q.w6, x.w6, fma(q.w5, x.w5, fma(q.w4, x.w4, a))));
    return (b.x + b.y) + (b.z + b.w);
}

struct Rows {
    r0: W32,
    r1: W32,
    r2: W32,
    r3: W32,
}

// Four rows times one column.
fn dots(r: Rows, xi: u32, lane: u32) -> vec4<f32> {
    let x = xblock(xi, lane).x;
    return vec4<f32>(dot32(r.r0, x), dot32(r.r1, x), dot32(r.r2, x), dot32(r.r3, x));
}

// Four rows times up to four columns from `first` on: [column] of [row].
fn dots4(r: Rows, first: u32, xi: u32, lane: u32) -> mat4x4<f32> {
    let s = P.x_stride;
    var m = mat4x4<f32>();
    m[0] = dots(r, xi + first * s, lane);
    if COLS > first + 1u {
        m[1] = dots(r, xi + (first + 1u) * s, lane);
    }
    if COLS > first + 2u {
        m[2] = dots(r, xi + (first + 2u) * s, lane);
    }
    if COLS > first + 3u {
        m[3] = dots(r, xi + (first + 3u) * s, lane);
    }
    return transpose(m);
}

// Adds a block of four rows times the activations from vec4 `xi` on.
fn accumulate(t: Tile, q: Quad, xi: u32, lane: u32) -> Tile {
    let r = Rows(weights32(q.r0), weights32(q.r1), weights32(q.r2), weights32(q.r3));
    var a = t;
    let m = dots4(r, 0u, xi, lane);
    a.r0.a += m[0];
    a.r1.a += m[1];
    a.r2.a += m[2];
    a.r3.a += m[3];
    if COLS > 4u {
        let m = dots4(r, 4u, xi, lane);
        a.r0.b += m[0];
        a.r1.b += m[1];
        a.r2.b += m[2];
        a.r3.b += m[3];
    }
    if COLS > 8u {
        let m = dots4(r, 8u, xi, lane);
        a.r0.c += m[0];
        a.r1.c += m[1];
        a.r2.c += m[2];
        a.r3.c += m[3];
    }
    if COLS > 12u {
        let m = dots4(r, 12u, xi, lane);
        a.r0.d += m[0];
        a.r1.d += m[1];
        a.r2.d += m[2];
        a.r3.d += m[3];
    }
    return a;
}

fn finish(acc: Acc) -> Sums {
    return Sums(acc.a, acc.b, acc.c, acc.d);
}
