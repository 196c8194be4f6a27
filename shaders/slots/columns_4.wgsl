// slot columns = 4: up to four activation columns in one pass over the weights.
fn dot32(q: W32, i: u32) -> f32 {
    return dot(q.w0, xload(i)) + dot(q.w1, xload(i + 1u)) + dot(q.w2, xload(i + 2u)) + dot(q.w3, xload(i + 3u))
        + dot(q.w4, xload(i + 4u)) + dot(q.w5, xload(i + 5u)) + dot(q.w6, xload(i + 6u)) + dot(q.w7, xload(i + 7u));
}

fn accumulate(acc: Acc, q: W32, xi: u32) -> Acc {
    let s = P.x_stride;
    return Acc(acc.a + vec4<f32>(dot32(q, xi), dot32(q, xi + s), dot32(q, xi + 2u * s), dot32(q, xi + 3u * s)), acc.b);
}

fn finish(acc: Acc) -> Acc {
    return acc;
}
