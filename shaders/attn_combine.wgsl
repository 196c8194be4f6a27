// Joins the chunks of attention: out[c, h, :] = sum_j e^(m_j - M) o_j / sum_j e^(m_j - M) l_j, over
// the chunks that the column's window touches.
//   part: [column, head, chunk, 1 + hdp / 4] vec4; cols: batch; out: [columns, out_stride] f32,
//   head h at h hd. One workgroup per (head, column), one lane per four dimensions.
struct Params {
    n_head: u32,
    hd: u32,
    hdp: u32,
    window: u32,
    chunk: u32,
    n_chunks: u32,
    out_stride: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> part: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

override WG: u32 = 32u;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    let col = cols[1u + wid.y];
    if (col.w & 1u) == 0u {
        return;
    }
    var first = 0u;
    if P.window > 0u && col.y + 1u > P.window {
        first = (col.y + 1u - P.window) / P.chunk;
    }
    let last = col.y / P.chunk;
    let step = 1u + P.hdp / 4u;
    let row = (wid.y * P.n_head + wid.x) * P.n_chunks * step;
    for (var i = lid; i < P.hdp / 4u; i += WG) {
        var m = -3.0e38;
        var l = 0.0;
        var o = vec4<f32>();
        for (var j = first; j <= last; j++) {
            let ml = part[row + j * step];
            let m2 = max(m, ml.x);
            let a = exp(m - m2);
            let b = exp(ml.x - m2);
            l = l * a + ml.y * b;
            o = o * a + part[row + j * step + 1u + i] * b;
            m = m2;
        }
        o /= l;
        let at = wid.y * P.out_stride + wid.x * P.hd + 4u * i;
        for (var k = 0u; k < min(4u, P.hd - min(P.hd, 4u * i)); k++) {
            out[at + k] = o[k];
        }
    }
}
