// slot scale = norm: the activations are an RMS norm's but for its root, which is left to the product
// of them: each column's results are multiplied by 1 / sqrt(mean of squares + eps). The squares
// were summed up in parts by the product that made the activations (slot sink = norm).
//   sums: [columns, parts rounded up to 16] vec4 of partial sums, zero behind the last.
#use root
@group(0) @binding(4) var<storage, read> sums: array<vec4<f32>>;

// What a lane finds of column `c`.
fn some_squares(c: u32, t: Team) -> f32 {
    var v = vec4<f32>();
    let at = c * ((P.parts + 15u) / 16u * 16u);
    for (var i = t.lane; i < P.parts; i += t.size) {
        v += sums[at + i];
    }
    return (v.x + v.y) + (v.z + v.w);
}

fn scales4(c: u32, t: Team, lid: u32) -> vec4<f32> {
    var v = vec4<f32>(some_squares(c, t), 0.0, 0.0, 0.0);
    if COLS > c + 1u {
        v.y = some_squares(c + 1u, t);
    }
    if COLS > c + 2u {
        v.z = some_squares(c + 2u, t);
    }
    if COLS > c + 3u {
        v.w = some_squares(c + 3u, t);
    }
    let mean = team_sum(v, lid) / f32(P.norm_n) + P.eps;
    return vec4<f32>(inverse_root(mean.x), inverse_root(mean.y), inverse_root(mean.z), inverse_root(mean.w));
}

// Of all columns; all lanes must call.
fn column_scales(t: Team, lid: u32) -> Sums {
    var s = Sums();
    s.a = scales4(0u, t, lid);
    if COLS > 4u {
        s.b = scales4(4u, t, lid);
    }
    if COLS > 8u {
        s.c = scales4(8u, t, lid);
    }
    if COLS > 12u {
        s.d = scales4(12u, t, lid);
    }
    return s;
}
