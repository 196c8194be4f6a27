// Two matrices of different weight types times the same activations, each as matvec does it:
//   y[c, r] = mult[r] * sum_k W[r, k] x[c, k], rows of w from P.out_row on, of w2 from P.out_row2 on.
//   w, w2: repacked matrices [rows, 32 nb], [rows2, 32 nb]; x: [COLS, 32 nb] f32; out as in matvec.
// One workgroup does four rows per team of one of the two. Results are stored, without slot sink.
#use matvec_io
#use weights
#use quant
#use x
#use columns
#use team
#use scale
#use four_rows
#use emit
#use sink_plain
#use put_rows
#use product_team
#again 2 weights quant2 emit sink_plain put_rows product_team

override WG: u32 = 64u;

@compute @workgroup_size(WG)
fn main(in: In) {
    let t = team_of(in);
    let group = in.wid.y * in.nwg.x + in.wid.x;
    let first = product_groups(t);
    if group < first {
        product(t, group, in.lid);
    } else {
        product2(t, group - first, in.lid);
    }
}
