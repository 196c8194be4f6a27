// Dequantizing GEMM for prefill: y[c, r] = mult[r] * sum_k W[r, k] x[c, k], 64 rows x 32 columns a
// workgroup, 32 weights of k a round through workgroup memory, 4 x 4 results a lane.
//   w: repacked matrix [rows, 32 nb]; x: [columns (a multiple of 32), 32 nb] f32; out as in matvec.
// WG must be 128: lanes 0..63 dequantize a row each, lanes 64..127 fetch the columns.
#use matvec_io
#use weights
#use quant
#use x
#use emit

const WG: u32 = 128u;
// One vec4 of padding per line keeps neighbouring lines on different banks.
var<workgroup> tile_w: array<vec4<f32>, 576>; // [64 rows, 8 + 1]
var<workgroup> tile_x: array<vec4<f32>, 288>; // [32 columns, 8 + 1]

fn step4(acc: vec4<f32>, a: vec4<f32>, xi: u32, kk: u32) -> vec4<f32> {
    return acc + vec4<f32>(
        dot(a, tile_x[xi + kk]),
        dot(a, tile_x[xi + 9u + kk]),
        dot(a, tile_x[xi + 18u + kk]),
        dot(a, tile_x[xi + 27u + kk]),
    );
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>,
    @builtin(local_invocation_index) lid: u32,
) {
    let row0 = 64u * (wid.z * nwg.x + wid.x);
    let col0 = 32u * wid.y;
    let load_row = row_at(min(row0 + lid, P.rows - 1u));
    let my_row = 4u * (lid / 8u);
    let my_col = 4u * (lid % 8u);
    var a0 = vec4<f32>();
    var a1 = vec4<f32>();
    var a2 = vec4<f32>();
    var a3 = vec4<f32>();
    for (var b = 0u; b < P.nb; b++) {
        if lid < 64u {
            let q = weights32(quant_load32(load_row, b, P.nb, quant_group(load_row, b / 8u, P.nb)));
            let i = lid * 9u;
            tile_w[i] = q.w0;
            tile_w[i + 1u] = q.w1;
            tile_w[i + 2u] = q.w2;
            tile_w[i + 3u] = q.w3;
            tile_w[i + 4u] = q.w4;
            tile_w[i + 5u] = q.w5;
            tile_w[i + 6u] = q.w6;
            tile_w[i + 7u] = q.w7;
        } else {
            for (var i = lid - 64u; i < 256u; i += 64u) {
                tile_x[(i / 8u) * 9u + i % 8u] = xload((col0 + i / 8u) * P.x_stride + b * 8u + i % 8u);
            }
        }
        workgroupBarrier();
        for (var kk = 0u; kk < 8u; kk++) {
            a0 = step4(a0, tile_w[my_row * 9u + kk], my_col * 9u, kk);
            a1 = step4(a1, tile_w[(my_row + 1u) * 9u + kk], my_col * 9u, kk);
            a2 = step4(a2, tile_w[(my_row + 2u) * 9u + kk], my_col * 9u, kk);
            a3 = step4(a3, tile_w[(my_row + 3u) * 9u + kk], my_col * 9u, kk);
        }
        workgroupBarrier();
    }
    let row = row0 + my_row;
    if row >= P.rows {
        return;
    }
    let m0 = row_mult(row);
    let m1 = row_mult(row + 1u);
    let m2 = row_mult(row + 2u);
    let m3 = row_mult(row + 3u);
    for (var c = 0u; c < 4u; c++) {
        emit(col0 + my_col + c, row, a0[c] * m0, a1[c] * m1);
        emit(col0 + my_col + c, row + 2u, a2[c] * m2, a3[c] * m3);
    }
}
