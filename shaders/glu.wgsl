// Gated activation of an unfused FFN (gate and up of different weight types):
//   out[c, i] = act(x[c, i]) * x[c, up + i], act = SiLU (mode 2) or GELU in tanh form (mode 3).
// One lane per element, one workgroup row per column.
#use activation

struct Params {
    n: u32,
    up: u32,
    x_stride: u32,
    out_stride: u32,
    mode: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

override WG: u32 = 64u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = wid.x * WG + lid;
    if i >= P.n {
        return;
    }
    let v = x[wid.y * P.x_stride + i];
    let up = x[wid.y * P.x_stride + P.up + i];
    var a: f32;
    if P.mode == 2u {
        a = silu(v);
    } else {
        a = gelu(v);
    }
    out[wid.y * P.out_stride + i] = a * up;
}
