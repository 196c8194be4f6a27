// Copies the hidden state of the column named in the batch header (cols[0].y) to column 0 of out.
//   x: [columns, stride] f32; out: [1, stride]. One lane per element.
struct Params {
    n: u32,
    stride: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

override WG: u32 = 64u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = wid.x * WG + lid;
    if i < P.n {
        out[i] = x[cols[0].y * P.stride + i];
    }
}
