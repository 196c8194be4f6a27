// slot x = uniform: the activations through a uniform binding (64 KiB, the smallest limit of all).
// A software device reads it as a scalar broadcast; the host makes each such buffer long enough.
#use types

@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>;

fn xload(i: u32) -> vec4<f32> {
    return x[i];
}

// The 32 activations from vec4 `i` on.
fn xblock(i: u32, lane: u32) -> X32 {
    return with_sums(W32(x[i], x[i + 1u], x[i + 2u], x[i + 3u], x[i + 4u], x[i + 5u], x[i + 6u], x[i + 7u]));
}
