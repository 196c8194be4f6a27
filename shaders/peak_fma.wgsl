// Nothing but multiply-adds, to time a device's arithmetic: three chains a lane, each a vec4,
//   a_j = b + (i mod 64 + j) / 64,  then 8 rounds times  a_j = a_j * m + b,  out[i] = a_0 + a_1 + a_2
//   x: [1] vec4, x[0].x = m (|m| < 1, so that sums stay finite), x[0].y = b; out: [n] vec4.
// One lane per i of n: 96 rounds multiply-adds each. m and b come from memory and the lanes start
// apart, so that nothing can be computed once for all. Twelve numbers and two factors fit the
// registers of a CPU; a loop is unrolled eight times, so that counting costs little.
struct Params {
    n: u32,
    rounds: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;

override WG: u32 = 64u;

struct Chains {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
}

fn step(v: Chains, m: vec4<f32>, b: vec4<f32>) -> Chains {
    return Chains(fma(v.a, m, b), fma(v.b, m, b), fma(v.c, m, b));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let i = wid.x * WG + lid;
    if i >= P.n {
        return;
    }
    let m = vec4(x[0].x);
    let b = vec4(x[0].y);
    let at = f32(i % 64u);
    var v = Chains(b + at / 64.0, b + (at + 1.0) / 64.0, b + (at + 2.0) / 64.0);
    for (var r = 0u; r < P.rounds; r++) {
        v = step(step(step(step(v, m, b), m, b), m, b), m, b);
        v = step(step(step(step(v, m, b), m, b), m, b), m, b);
    }
    out[i] = v.a + v.b + v.c;
}
