// slot embed = plain: embedding rows and nothing else.
fn put(c: u32, b: u32, v: W32) {
    let o = c * P.out_stride + b * 8u;
    out[o] = v.w0;
    out[o + 1u] = v.w1;
    out[o + 2u] = v.w2;
    out[o + 3u] = v.w3;
    out[o + 4u] = v.w4;
    out[o + 5u] = v.w5;
    out[o + 6u] = v.w6;
    out[o + 7u] = v.w7;
}
