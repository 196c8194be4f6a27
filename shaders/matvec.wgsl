// Dequantizing GEMV, one team of lanes per four rows: y[c, r] = mult[r] * sum_k W[r, k] x[c, k].
//   w: repacked matrix [rows, 32 nb]; x: [columns, 32 nb] f32; out: [columns, out_stride] f32.
// The lanes of a team stride along k, block by block of 32 weights, and are summed at the end
// (slot team: a subgroup, or the whole workgroup through shared memory).
#use types
#use matvec_io
#use weights
#use quant
#use x
#use columns
#use team

override WG: u32 = 64u;

fn total(acc: Acc, lid: u32) -> Acc {
    let f = finish(acc);
    if P.n_cols > 4u {
        return Acc(team_sum(f.a, lid), team_sum(f.b, lid));
    }
    return Acc(team_sum(f.a, lid), f.b);
}

@compute @workgroup_size(WG)
fn main(in: In) {
    let t = team_of(in);
    let row = 4u * ((in.wid.y * in.nwg.x + in.wid.x) * t.count + t.index);
    // Rows past the end are computed as the last one and not written: barriers stay uniform.
    let last = P.rows - 1u;
    let r0 = min(row, last) * P.row_vec4s;
    let r1 = min(row + 1u, last) * P.row_vec4s;
    let r2 = min(row + 2u, last) * P.row_vec4s;
    let r3 = min(row + 3u, last) * P.row_vec4s;
    var a0 = Acc();
    var a1 = Acc();
    var a2 = Acc();
    var a3 = Acc();
    for (var b = t.lane; b < P.nb; b += t.size) {
        let g = b / 8u;
        a0 = accumulate(a0, quant_load32(r0, b, P.nb, quant_group(r0, g, P.nb)), b * 8u);
        a1 = accumulate(a1, quant_load32(r1, b, P.nb, quant_group(r1, g, P.nb)), b * 8u);
        a2 = accumulate(a2, quant_load32(r2, b, P.nb, quant_group(r2, g, P.nb)), b * 8u);
        a3 = accumulate(a3, quant_load32(r3, b, P.nb, quant_group(r3, g, P.nb)), b * 8u);
    }
    let s0 = total(a0, in.lid);
    let s1 = total(a1, in.lid);
    let s2 = total(a2, in.lid);
    let s3 = total(a3, in.lid);
    if t.lane == 0u {
        if row < P.rows {
            emit_columns(row, s0, s1);
        }
        if row + 2u < P.rows {
            emit_columns(row + 2u, s2, s3);
        }
    }
}
