// slot columns = 1: one activation column.
override COLS: u32 = 1u;

struct Acc {
    v: f32,
}

// Sum of 32 weights times activations: scales once per 16.
fn dot32(q: Q32, x: X32) -> f32 {
    let a = fma(q.w.w3, x.x.w3, fma(q.w.w2, x.x.w2, fma(q.w.w1, x.x.w1, q.w.w0 * x.x.w0)));
    let b = fma(q.w.w7, x.x.w7, fma(q.w.w6, x.x.w6, fma(q.w.w5, x.x.w5, q.w.w4 * x.x.w4)));
    let sums = vec2<f32>((a.x + a.y) + (a.z + a.w), (b.x + b.y) + (b.z + b.w));
    return dot(q.s, sums) + dot(q.m, x.s);
}

// Adds a block of four rows times the activations from vec4 `xi` on.
fn accumulate(t: Tile, q: Quad, xi: u32, lane: u32) -> Tile {
    let x = xblock(xi, lane);
    return Tile(
        Acc(t.r0.v + dot32(q.r0, x)),
        Acc(t.r1.v + dot32(q.r1, x)),
        Acc(t.r2.v + dot32(q.r2, x)),
        Acc(t.r3.v + dot32(q.r3, x)),
    );
}

fn finish(acc: Acc) -> Sums {
    return Sums(vec4<f32>(acc.v, 0.0, 0.0, 0.0), vec4<f32>(), vec4<f32>(), vec4<f32>());
}
