// Dequantizing GEMV, one lane per pair of rows: y[c, r] = mult[r] * sum_k W[r, k] x[c, k].
//   w: repacked matrix [rows, 32 nb]; x: [8 columns, 32 nb] f32; out: [columns, out_stride] f32.
// One workgroup does 2 WG rows, for all columns. No reduction, no barrier: every lane reads its own
// rows while x is the same for all, which is what a software device likes (x through `uniform`).
#use types
#use matvec_io
#use weights
#use quant
#use x
#use columns

override WG: u32 = 32u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row = 2u * ((wid.y * nwg.x + wid.x) * WG + lid);
    if row >= P.rows {
        return;
    }
    let r0 = row * P.row_vec4s;
    // A last odd row is computed twice rather than read past the end.
    let r1 = select(r0, r0 + P.row_vec4s, row + 1u < P.rows);
    var a0 = Acc();
    var a1 = Acc();
    for (var g = 0u; g * 8u < P.nb; g++) {
        let g0 = quant_group(r0, g, P.nb);
        let g1 = quant_group(r1, g, P.nb);
        let end = min(g * 8u + 8u, P.nb);
        for (var b = g * 8u; b < end; b++) {
            a0 = accumulate(a0, quant_load32(r0, b, P.nb, g0), b * 8u);
            a1 = accumulate(a1, quant_load32(r1, b, P.nb, g1), b * 8u);
        }
    }
    emit_columns(row, finish(a0), finish(a1));
}
