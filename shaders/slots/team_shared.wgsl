// slot team = shared: the whole workgroup is one team, summed through workgroup memory.
struct In {
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
}

struct Team {
    index: u32,
    count: u32,
    lane: u32,
    size: u32,
}

var<workgroup> team_part: array<vec4<f32>, WG>;

fn team_of(in: In) -> Team {
    return Team(0u, 1u, in.lid, WG);
}

// Every lane gets the sum. All lanes must call it.
fn team_sum(v: vec4<f32>, lid: u32) -> vec4<f32> {
    team_part[lid] = v;
    workgroupBarrier();
    for (var n = WG / 2u; n > 0u; n /= 2u) {
        if lid < n {
            team_part[lid] += team_part[lid + n];
        }
        workgroupBarrier();
    }
    let s = team_part[0];
    workgroupBarrier();
    return s;
}
