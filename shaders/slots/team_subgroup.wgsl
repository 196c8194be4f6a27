// slot team = subgroup: each subgroup is a team of its own.
struct In {
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
    @builtin(subgroup_id) sg: u32,
    @builtin(num_subgroups) nsg: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) size: u32,
}

struct Team {
    index: u32, // of this team in the workgroup
    count: u32, // teams in the workgroup
    lane: u32,
    size: u32,
}

fn team_of(in: In) -> Team {
    // A subgroup may be wider than the workgroup; lanes that are not there do no work.
    return Team(in.sg, in.nsg, in.lane, min(in.size, WG));
}

fn team_sum(v: vec4<f32>, lid: u32) -> vec4<f32> {
    return subgroupAdd(v);
}
