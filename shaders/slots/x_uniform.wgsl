// slot x = uniform: the activations through a uniform binding (64 KiB, the smallest limit of all).
// A software device reads it as a scalar broadcast; the host makes each such buffer long enough.
@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>;

fn xload(i: u32) -> vec4<f32> {
    return x[i];
}
