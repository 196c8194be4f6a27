// slot embed = norm: embedding rows, and the RMS norm that follows is begun: hn = out * gain, and squares
// summed up per block of 32 (see slot scale = norm of the products).
//   hn: as out; gain: [32 nb]; sums_out: [columns, parts rounded up to 16] vec4, zero behind the last.
@group(0) @binding(5) var<storage, read_write> hn: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read> gain: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> sums_out: array<f32>;

fn put4(o: u32, g: u32, v: vec4<f32>) -> f32 {
    out[o] = v;
    hn[o] = v * gain[g];
    return dot(v, v);
}

fn put(c: u32, b: u32, v: W32) {
    let o = c * P.out_stride + b * 8u;
    let g = b * 8u;
    var s = put4(o, g, v.w0) + put4(o + 1u, g + 1u, v.w1) + put4(o + 2u, g + 2u, v.w2) + put4(o + 3u, g + 3u, v.w3);
    s += put4(o + 4u, g + 4u, v.w4) + put4(o + 5u, g + 5u, v.w5);
    s += put4(o + 6u, g + 6u, v.w6) + put4(o + 7u, g + 7u, v.w7);
    let at = c * ((P.parts + 15u) / 16u * 64u);
    sums_out[at + b] = s;
    if b == P.nb - 1u {
        for (var i = P.nb; i < 4u * P.parts; i++) {
            sums_out[at + i] = 0.0;
        }
    }
}
