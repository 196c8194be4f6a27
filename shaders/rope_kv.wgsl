// What happens to q, k and v between their projection and attention, one head of one column per
// workgroup: bias, RMS norm of q and k heads, rotary embedding of pairs (i, i + rot/2), then q goes
// out as f32 and k, v go into the paged cache as f16.
//   x: [columns, x_stride] f32 = n_head q heads, n_kv k heads, n_kv v heads of `hd` each;
//   cols: batch header and columns (token, position, slot, active); pages: [slot, pages_per_slot];
//   rope: [256 + n_hi, rot/2] (cos, sin), rows 0..256 for position % 256, then for position / 256;
//   aux: [bias (n_head + 2 n_kv) hd][norm_q hd][norm_k hd], each part only if its flag is set;
//   q: [columns, q_stride] f32, head h at h hdp; kc, vc: [page, n_kv, page_len, hdp / 8] words of 8 f16.
// hdp is hd rounded up to 8, the padding is zero. The angle is composed from two table rows, since
// shader sin and cos are only good to 2^-11 and only near zero.
#use group
#use root
#use cache

struct Params {
    n_head: u32,
    n_kv: u32,
    hd: u32,
    hdp: u32,
    rot: u32,
    x_stride: u32,
    q_stride: u32, // f32 from column to column of q
    page_len: u32,
    pages_per_slot: u32,
    has_bias: u32,
    has_norm: u32,
    eps: f32,
    layer_shift: u32, // slot cache = texture: log2 of the pages of a layer
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> pages: array<u32>;
@group(0) @binding(4) var<storage, read> rope: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> aux: array<f32>;
@group(0) @binding(6) var<storage, read_write> q: array<f32>;

override WG: u32 = 32u;

var<workgroup> head: array<f32, 512>;
var<workgroup> turned: array<f32, 512>;

fn pair(d: u32) -> u32 {
    return pack2x16float(vec2<f32>(turned[d], turned[d + 1u]));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, lane: Lane) {
    let h = wid.x;
    let col = cols[1u + wid.y];
    let kind = select(select(2u, 1u, h < P.n_head + P.n_kv), 0u, h < P.n_head);
    var ss = 0.0;
    for (var d = lane.id; d < P.hdp; d += WG) {
        var v = 0.0;
        if d < P.hd {
            v = x[wid.y * P.x_stride + h * P.hd + d];
            if P.has_bias != 0u {
                v += aux[h * P.hd + d];
            }
        }
        ss += v * v;
        head[d] = v;
    }
    var norm = 1.0;
    if P.has_norm != 0u {
        norm = inverse_root(group_sum(vec4<f32>(ss, 0.0, 0.0, 0.0), lane).x / f32(P.hd) + P.eps);
    }
    workgroupBarrier();
    if P.has_norm != 0u && kind != 2u {
        let w = P.has_bias * (P.n_head + 2u * P.n_kv) * P.hd + kind * P.hd;
        for (var d = lane.id; d < P.hd; d += WG) {
            head[d] = head[d] * norm * aux[w + d];
        }
    }
    workgroupBarrier();
    let half = P.rot / 2u;
    for (var d = lane.id; d < P.hdp; d += WG) {
        var v = head[d];
        if kind != 2u && d < P.rot {
            let i = d % half;
            let lo = rope[(col.y & 255u) * half + i];
            let hi = rope[(256u + (col.y >> 8u)) * half + i];
            let c = lo.x * hi.x - lo.y * hi.y;
            let s = lo.x * hi.y + lo.y * hi.x;
            if d < half {
                v = v * c - head[d + half] * s;
            } else {
                v = head[d - half] * s + v * c;
            }
        }
        turned[d] = v;
    }
    workgroupBarrier();
    if kind == 0u {
        for (var d = lane.id; d < P.hdp; d += WG) {
            q[wid.y * P.q_stride + h * P.hdp + d] = turned[d];
        }
        return;
    }
    if (col.w & 1u) == 0u {
        return;
    }
    let kv = (h - P.n_head) % P.n_kv;
    let page = pages[col.z * P.pages_per_slot + col.y / P.page_len];
    let at = kv_at(page, kv, col.y % P.page_len);
    for (var i = lane.id; i < P.hdp / 8u; i += WG) {
        let word = vec4<u32>(pair(8u * i), pair(8u * i + 2u), pair(8u * i + 4u), pair(8u * i + 6u));
        if kind == 1u {
            kstore(at, i, word);
        } else {
            vstore(at, i, word);
        }
    }
}
