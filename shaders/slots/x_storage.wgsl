// slot x = storage: the activations, read as vec4.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;

fn xload(i: u32) -> vec4<f32> {
    return x[i];
}
