// Block-wise softmax attention over the paged cache, for up to four query heads of one KV head and
// one column and one chunk of positions:  part = (max, sum, sum_p exp(s_p - max) v_p).
//   x: q [columns, q_stride] f32, head h at h hdp, from column col0 on; kc, vc: [page, n_kv, page_len, hdp / 8] words of 8 f16;
//   cols, pages as in rope_kv; part: [column, head, chunk, 1 + hdp / 4] vec4.
// Workgroup (x, y, z) = (KV head and block of heads, column, chunk). Each lane scores positions of
// a tile of 256, then sums the values of eight dimensions over its share of those positions; K and V
// are read once for all heads of the block. hdp <= 512. Scores and probabilities never leave the
// workgroup. attn_combine joins the chunks.
#use attention_io
#use x
#use kv
#use group

override WG: u32 = 64u;
const TILE: u32 = 256u;
const LOW: f32 = -3.0e38;

var<workgroup> range: vec4<u32>;               // first and end position of this workgroup, slot
var<workgroup> prob: array<vec4<f32>, TILE>;   // scores, then probabilities, of up to four heads
var<workgroup> base: array<u32, TILE>;         // page of a position
var<workgroup> fold: array<vec4<f32>, 512>;    // partial sums of the position groups

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, lane: Lane) {
    let kv = wid.x / P.blocks;
    let group = P.n_head / P.n_kv;
    let block = (wid.x % P.blocks) * P.heads;
    let heads = min(P.heads, group - block);
    let head0 = kv * group + block;
    if lane.id == 0u {
        let col = cols[1u + P.col0 + wid.y];
        var first = 0u;
        if P.window > 0u && col.y + 1u > P.window {
            first = col.y + 1u - P.window;
        }
        let end = select(0u, min(col.y + 1u, (wid.z + 1u) * P.chunk), (col.w & 1u) == 1u);
        range = vec4<u32>(max(first, wid.z * P.chunk), end, col.z, 0u);
    }
    let r = workgroupUniformLoad(&range);
    if r.x >= r.y {
        return;
    }
    let words = P.hdp / 8u;
    let q0 = wid.y * P.q_stride + head0 * (P.hdp / 4u);
    // Heads this block does not have are scored as its first one and never written.
    let q1 = q0 + select(0u, P.hdp / 4u, heads > 1u);
    let q2 = q0 + select(0u, P.hdp / 2u, heads > 2u);
    let q3 = q0 + select(0u, 3u * (P.hdp / 4u), heads > 3u);
    let span = WG / words * words; // lanes at work on the values
    let groups = span / words;
    let d = lane.id % words;
    let share = lane.id / words;
    var m = vec4<f32>(LOW);
    var l = vec4<f32>(0.0);
    var o00 = vec4<f32>();
    var o01 = vec4<f32>();
    var o10 = vec4<f32>();
    var o11 = vec4<f32>();
    var o20 = vec4<f32>();
    var o21 = vec4<f32>();
    var o30 = vec4<f32>();
    var o31 = vec4<f32>();
    for (var t = r.x; t < r.y; t += TILE) {
        let n = min(TILE, r.y - t);
        var top = vec4<f32>(LOW);
        for (var i = lane.id; i < n; i += WG) {
            let p = t + i;
            let page = pages[r.z * P.pages_per_slot + p / P.page_len];
            base[i] = page;
            let at = kv_at(page, kv, p % P.page_len);
            var s = vec4<f32>();
            for (var j = 0u; j < words; j++) {
                let k = kload(at, j);
                let k0 = lo(k);
                let k1 = hi(k);
                s.x += dot(xload(q0 + 2u * j), k0) + dot(xload(q0 + 2u * j + 1u), k1);
                if P.heads > 1u {
                    s.y += dot(xload(q1 + 2u * j), k0) + dot(xload(q1 + 2u * j + 1u), k1);
                }
                if P.heads > 2u {
                    s.z += dot(xload(q2 + 2u * j), k0) + dot(xload(q2 + 2u * j + 1u), k1);
                }
                if P.heads > 3u {
                    s.w += dot(xload(q3 + 2u * j), k0) + dot(xload(q3 + 2u * j + 1u), k1);
                }
            }
            s *= P.scale;
            prob[i] = s;
            top = max(top, s);
        }
        let m2 = max(m, group_max(top, lane));
        let shrink = exp(m - m2);
        var sum = vec4<f32>();
        for (var i = lane.id; i < n; i += WG) {
            let e = exp(prob[i] - m2);
            prob[i] = e;
            sum += e;
        }
        l = l * shrink + group_sum(sum, lane); // its barriers also publish prob and base
        m = m2;
        o00 *= shrink.x;
        o01 *= shrink.x;
        o10 *= shrink.y;
        o11 *= shrink.y;
        o20 *= shrink.z;
        o21 *= shrink.z;
        o30 *= shrink.w;
        o31 *= shrink.w;
        if lane.id < span {
            for (var i = share; i < n; i += groups) {
                let v = vload(kv_at(base[i], kv, (t + i) % P.page_len), d);
                let v0 = lo(v);
                let v1 = hi(v);
                let e = prob[i];
                o00 += e.x * v0;
                o01 += e.x * v1;
                if P.heads > 1u {
                    o10 += e.y * v0;
                    o11 += e.y * v1;
                }
                if P.heads > 2u {
                    o20 += e.z * v0;
                    o21 += e.z * v1;
                }
                if P.heads > 3u {
                    o30 += e.w * v0;
                    o31 += e.w * v1;
                }
            }
        }
        workgroupBarrier(); // prob and base are free again
    }
    // Fold the position groups, head by head (the same number of rounds for every lane).
    for (var k = 0u; k < P.heads; k++) {
        var a = o00;
        var b = o01;
        if k == 1u {
            a = o10;
            b = o11;
        } else if k == 2u {
            a = o20;
            b = o21;
        } else if k == 3u {
            a = o30;
            b = o31;
        }
        fold[2u * lane.id] = a;
        fold[2u * lane.id + 1u] = b;
        workgroupBarrier();
        if k < heads {
            let row = (((P.col0 + wid.y) * P.n_head + head0 + k) * P.n_chunks + wid.z) * (1u + P.hdp / 4u);
            for (var i = lane.id; i < 2u * words; i += WG) {
                var s = vec4<f32>();
                for (var g = 0u; g < groups; g++) {
                    s += fold[g * 2u * words + i];
                }
                part[row + 1u + i] = s;
            }
            if lane.id == 0u {
                part[row] = vec4<f32>(m[k], l[k], 0.0, 0.0);
            }
        }
        workgroupBarrier();
    }
}
