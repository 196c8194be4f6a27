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

// Four nibbles of one u32, from bit 0 on, as 1 + q / 16.
fn nibbles4(q: u32) -> vec4<f32> {
    return unit((vec4<u32>(q) << vec4<u32>(19u, 15u, 11u, 7u)) & vec4<u32>(15u << 19u));
}

// 32 nibbles of a word.
fn nibbles32(q: vec4<u32>) -> W32 {
    return W32(
        nibbles4(q.x),
        nibbles4(q.x >> 16u),
        nibbles4(q.y),
        nibbles4(q.y >> 16u),
        nibbles4(q.z),
        nibbles4(q.z >> 16u),
        nibbles4(q.w),
        nibbles4(q.w >> 16u),
    );
}

// Four 5-bit quants, nibbles of one u32 and bits 0..3 of `high` as their fifth bits, as 1 + q / 32.
fn five_bits4(q: u32, high: u32) -> vec4<f32> {
    let low = (vec4<u32>(q) << vec4<u32>(18u, 14u, 10u, 6u)) & vec4<u32>(15u << 18u);
    return unit(low | ((vec4<u32>(high) << vec4<u32>(22u, 21u, 20u, 19u)) & vec4<u32>(1u << 22u)));
}

// 32 of them, from a word of nibbles and 32 high bits.
fn five_bits32(q: vec4<u32>, h: u32) -> W32 {
    return W32(
        five_bits4(q.x, h),
        five_bits4(q.x >> 16u, h >> 4u),
        five_bits4(q.y, h >> 8u),
        five_bits4(q.y >> 16u, h >> 12u),
        five_bits4(q.z, h >> 16u),
        five_bits4(q.z >> 16u, h >> 20u),
        five_bits4(q.w, h >> 24u),
        five_bits4(q.w >> 16u, h >> 28u),
    );
}

// 32 activations and the sums of their halves.
struct X32 {
    x: W32,
    s: vec2<f32>,
}

// `v` with the sums of its halves.
fn with_sums(v: W32) -> X32 {
    let a = (v.w0 + v.w1) + (v.w2 + v.w3);
    let b = (v.w4 + v.w5) + (v.w6 + v.w7);
    return X32(v, vec2<f32>((a.x + a.y) + (a.z + a.w), (b.x + b.y) + (b.z + b.w)));
}
