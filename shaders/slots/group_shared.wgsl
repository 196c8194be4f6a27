// slot group = shared: sum and maximum over a workgroup of WG lanes (a power of two) through
// workgroup memory. Every lane must call and every lane gets the result.
var<workgroup> group_part: array<vec4<f32>, WG>;

struct Lane {
    @builtin(local_invocation_index) id: u32,
}

fn group_sum(v: vec4<f32>, lane: Lane) -> vec4<f32> {
    group_part[lane.id] = v;
    workgroupBarrier();
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        if lane.id < n {
            group_part[lane.id] += group_part[lane.id + n];
        }
        workgroupBarrier();
    }
    let s = group_part[0];
    workgroupBarrier();
    return s;
}

fn group_max(v: vec4<f32>, lane: Lane) -> vec4<f32> {
    group_part[lane.id] = v;
    workgroupBarrier();
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        if lane.id < n {
            group_part[lane.id] = max(group_part[lane.id], group_part[lane.id + n]);
        }
        workgroupBarrier();
    }
    let s = group_part[0];
    workgroupBarrier();
    return s;
}
