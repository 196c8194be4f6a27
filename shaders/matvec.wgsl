// Dequantizing GEMV, one team of lanes per four rows: y[c, r] = mult[r] * sum_k W[r, k] x[c, k].
//   w: repacked matrix [rows, 32 nb]; x: [COLS, 32 nb] f32; out: [columns, out_stride] f32.
// The lanes of a team stride along k, block by block of 32 weights, and are summed at the end
// (slot team: a subgroup, or the whole workgroup through shared memory).
#use matvec_io
#use weights
#use quant
#use x
#use columns
#use four_rows
#use team

override WG: u32 = 64u;

fn load32(row: u32, b: u32) -> Q32 {
    return quant_load32(row, b, P.nb, quant_group(row, b / 8u, P.nb));
}

fn total(acc: Acc, lid: u32) -> Sums {
    var s = finish(acc);
    s.a = team_sum(s.a, lid);
    if COLS > 4u {
        s.b = team_sum(s.b, lid);
    }
    if COLS > 8u {
        s.c = team_sum(s.c, lid);
    }
    if COLS > 12u {
        s.d = team_sum(s.d, lid);
    }
    return s;
}

@compute @workgroup_size(WG)
fn main(in: In) {
    let t = team_of(in);
    let row = 4u * ((in.wid.y * in.nwg.x + in.wid.x) * t.count + t.index);
    // Rows past the end are computed as the last one and not written: barriers stay uniform.
    let last = P.rows - 1u;
    let r0 = row_at(min(row, last));
    let r1 = row_at(min(row + 1u, last));
    let r2 = row_at(min(row + 2u, last));
    let r3 = row_at(min(row + 3u, last));
    var acc = Tile();
    for (var b = t.lane; b < P.nb; b += t.size) {
        let q = Quad(load32(r0, b), load32(r1, b), load32(r2, b), load32(r3, b));
        acc = accumulate(acc, q, b * 8u, t.lane);
    }
    let s0 = total(acc.r0, in.lid);
    let s1 = total(acc.r1, in.lid);
    let s2 = total(acc.r2, in.lid);
    let s3 = total(acc.r3, in.lid);
    if t.lane == 0u {
        if row < P.rows {
            emit_columns(row, s0, s1);
        }
        if row + 2u < P.rows {
            emit_columns(row + 2u, s2, s3);
        }
    }
}
