// slot group = subgroup: sum and maximum over a workgroup, first inside each subgroup, then over
// the subgroups through workgroup memory. Every lane must call and every lane gets the result.
var<workgroup> group_part: array<vec4<f32>, WG>;

struct Lane {
    @builtin(local_invocation_index) id: u32,
    @builtin(subgroup_id) sg: u32,
    @builtin(num_subgroups) nsg: u32,
    @builtin(subgroup_invocation_id) lane: u32,
}

fn group_sum(v: vec4<f32>, lane: Lane) -> vec4<f32> {
    let part = subgroupAdd(v);
    if lane.lane == 0u {
        group_part[lane.sg] = part;
    }
    workgroupBarrier();
    var s = group_part[0];
    for (var i = 1u; i < lane.nsg; i++) {
        s += group_part[i];
    }
    workgroupBarrier();
    return s;
}

fn group_max(v: vec4<f32>, lane: Lane) -> vec4<f32> {
    let part = subgroupMax(v);
    if lane.lane == 0u {
        group_part[lane.sg] = part;
    }
    workgroupBarrier();
    var s = group_part[0];
    for (var i = 1u; i < lane.nsg; i++) {
        s = max(s, group_part[i]);
    }
    workgroupBarrier();
    return s;
}
