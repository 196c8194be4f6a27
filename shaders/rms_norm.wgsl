// RMS norm: out[c, i] = x[c, i] / sqrt(mean(x[c, :]^2) + eps) * weight[i].
//   x, out: [columns, stride] f32; weight: [n]. One workgroup per column.
#use group
#use root

struct Params {
    n: u32,
    stride: u32,
    eps: f32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

override WG: u32 = 64u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, lane: Lane) {
    let base = wid.x * P.stride;
    var ss = 0.0;
    for (var i = lane.id; i < P.n; i += WG) {
        let v = x[base + i];
        ss += v * v;
    }
    let mean = group_sum(vec4<f32>(ss, 0.0, 0.0, 0.0), lane).x / f32(P.n);
    let r = inverse_root(mean + P.eps);
    for (var i = lane.id; i < P.n; i += WG) {
        out[base + i] = x[base + i] * r * weight[i];
    }
}
