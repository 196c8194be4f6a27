// 32 consecutive weights of a row (or as many activations), in order.
struct W32 {
    w0: vec4<f32>,
    w1: vec4<f32>,
    w2: vec4<f32>,
    w3: vec4<f32>,
    w4: vec4<f32>,
    w5: vec4<f32>,
    w6: vec4<f32>,
    w7: vec4<f32>,
}

// 32 weights as their type packs them: s.x * w + m.x for the first 16, s.y * w + m.y for the others.
// A product with activations needs s and m only once per 16 weights.
struct Q32 {
    w: W32,
    s: vec2<f32>,
    m: vec2<f32>,
}

fn weights32(q: Q32) -> W32 {
    return W32(
        fma(vec4<f32>(q.s.x), q.w.w0, vec4<f32>(q.m.x)),
        fma(vec4<f32>(q.s.x), q.w.w1, vec4<f32>(q.m.x)),
        fma(vec4<f32>(q.s.x), q.w.w2, vec4<f32>(q.m.x)),
        fma(vec4<f32>(q.s.x), q.w.w3, vec4<f32>(q.m.x)),
        fma(vec4<f32>(q.s.y), q.w.w4, vec4<f32>(q.m.y)),
        fma(vec4<f32>(q.s.y), q.w.w5, vec4<f32>(q.m.y)),
        fma(vec4<f32>(q.s.y), q.w.w6, vec4<f32>(q.m.y)),
        fma(vec4<f32>(q.s.y), q.w.w7, vec4<f32>(q.m.y)),
    );
}

// 1 + bits / 2^23, for bits below 2^23: whole numbers become floats without a conversion, which is slow
// or long on many devices, by being put into a mantissa.
fn unit(bits: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bits | vec4<u32>(0x3f800000u));
}

// 32 activations and the sums of their halves.
struct X32 {
    x: W32,
    s: vec2<f32>,
}
