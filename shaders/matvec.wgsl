// Dequantizing GEMV, one team of lanes per four rows: y[c, r] = mult[r] * sum_k W[r, k] x[c, k].
//   w: repacked matrix [rows, 32 nb]; x: [COLS, 32 nb] f32; out: [columns, out_stride] f32.
// One workgroup does four rows per team, for all columns; how stands in product_team.
#use matvec_io
#use weights
#use quant
#use x
#use columns
#use team
#use scale
#use sink
#use four_rows
#use emit
#use put_rows
#use product_team

override WG: u32 = 64u;

@compute @workgroup_size(WG)
fn main(in: In) {
    product(team_of(in), in.wid.y * in.nwg.x + in.wid.x, in.lid);
}
