// Random numbers of the sampler: a counter-based hash, so that a draw depends on nothing but the
// seed, how many tokens the slot has sampled, and the token it is for.

// pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering" (JCGT 9(3), 2020).
fn pcg4d(a: vec4<u32>) -> vec4<u32> {
    var v = a * 1664525u + 1013904223u;
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    v ^= v >> vec4<u32>(16u);
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    return v;
}

// Standard Gumbel noise: -ln(-ln(1 - u)), u in (0, 1). Winners have a small u, so it is u that has
// the fine steps (2^-32), and -ln(1 - u) comes from its series where a shader's log near 1 would
// not be good enough.
fn gumbel(h: u32) -> f32 {
    let u = min((f32(h) + 0.5) * 2.3283064e-10, 0.99999994);
    var e = u * (1.0 + u * (0.5 + u * (0.33333334 + u * 0.25)));
    if u > 0.015625 {
        e = -log(1.0 - u);
    }
    return -log(e);
}
