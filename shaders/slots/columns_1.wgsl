// slot columns = 1: one activation column.
fn accumulate(acc: Acc, q: W32, xi: u32) -> Acc {
    // One column: the four lanes of `a` are four partial sums, folded in `finish`.
    var s = acc.a;
    s += q.w0 * xload(xi) + q.w1 * xload(xi + 1u);
    s += q.w2 * xload(xi + 2u) + q.w3 * xload(xi + 3u);
    s += q.w4 * xload(xi + 4u) + q.w5 * xload(xi + 5u);
    s += q.w6 * xload(xi + 6u) + q.w7 * xload(xi + 7u);
    return Acc(s, acc.b);
}

fn finish(acc: Acc) -> Acc {
    return Acc(vec4<f32>(acc.a.x + acc.a.y + acc.a.z + acc.a.w, 0.0, 0.0, 0.0), acc.b);
}
