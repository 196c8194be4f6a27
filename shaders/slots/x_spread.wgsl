// slot x = spread: the activations through a uniform binding, for a subgroup whose lanes all want the
// same 32: eight lanes fetch a vec4 each and tell the others. (A software device turns every load
// from a computed address into one load per lane, but a broadcast from a fixed lane is one instruction.)
#use types

@group(0) @binding(2) var<uniform> x: array<vec4<f32>, 4096>;

fn xload(i: u32) -> vec4<f32> {
    return x[i];
}

// The 32 activations from vec4 `i` on, which is the same for all lanes; all must call.
fn xblock(i: u32, lane: u32) -> X32 {
    let v = x[min(i + (lane & 7u), 4095u)];
    let t = (v.x + v.y) + (v.z + v.w);
    let a = (subgroupBroadcast(t, 0u) + subgroupBroadcast(t, 1u)) + (subgroupBroadcast(t, 2u) + subgroupBroadcast(t, 3u));
    let b = (subgroupBroadcast(t, 4u) + subgroupBroadcast(t, 5u)) + (subgroupBroadcast(t, 6u) + subgroupBroadcast(t, 7u));
    let all = W32(
        subgroupBroadcast(v, 0u),
        subgroupBroadcast(v, 1u),
        subgroupBroadcast(v, 2u),
        subgroupBroadcast(v, 3u),
        subgroupBroadcast(v, 4u),
        subgroupBroadcast(v, 5u),
        subgroupBroadcast(v, 6u),
        subgroupBroadcast(v, 7u),
    );
    return X32(all, vec2<f32>(a, b));
}
