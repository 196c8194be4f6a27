// Dequantizing GEMV, one lane per four rows: y[c, r] = mult[r] * sum_k W[r, k] x[c, k].
//   w: repacked matrix [rows, 32 nb]; x: [COLS, 32 nb] f32; out: [columns, out_stride] f32.
// One workgroup does 4 WG rows, for all columns. Nothing is summed over lanes but squares for slots scale
// and sink: every lane reads its own
// rows while x is the same for all, which is what a software device likes.
#use matvec_io
#use weights
#use quant
#use x
#use columns
#use team
#use scale
#use sink
#use four_rows

override WG: u32 = 8u;

@compute @workgroup_size(WG)
fn main(in: In) {
    let t = team_of(in);
    let lid = in.lid;
    let group = in.wid.y * in.nwg.x + in.wid.x;
    if group * 4u * WG >= P.rows {
        return;
    }
    let row = 4u * (group * WG + lid);
    // Rows past the end are computed as the last one and not written: no lane leaves the subgroup.
    let last = P.rows - 1u;
    let r0 = row_at(min(row, last));
    let r1 = row_at(min(row + 1u, last));
    let r2 = row_at(min(row + 2u, last));
    let r3 = row_at(min(row + 3u, last));
    var acc = Tile();
    let nb = P.nb * in.nwg.z; // times 1, see `zero` in slots/matvec_io
    for (var g = 0u; g * 8u < nb; g++) {
        let g0 = quant_group(r0, g, P.nb);
        let g1 = quant_group(r1, g, P.nb);
        let g2 = quant_group(r2, g, P.nb);
        let g3 = quant_group(r3, g, P.nb);
        let end = min(g * 8u + 8u, nb);
        for (var b = g * 8u; b < end; b++) {
            let q = Quad(
                quant_load32(r0, b, P.nb, g0),
                quant_load32(r1, b, P.nb, g1),
                quant_load32(r2, b, P.nb, g2),
                quant_load32(r3, b, P.nb, g3),
            );
            acc = accumulate(acc, q, b * 8u, lid);
        }
    }
    let scale = column_scales(t, lid);
    let squares = put_rows(row, finish(acc.r0), finish(acc.r1), finish(acc.r2), finish(acc.r3), scale);
    if SQUARES {
        let sum = total(squares, lid);
        if t.lane == 0u && row < P.rows {
            close(row, sum);
        }
    }
}
