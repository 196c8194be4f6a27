// Attention as in `attention`, for software devices: one subgroup of eight lanes per workgroup, nothing
// in workgroup memory. For up to HEADS query heads of one KV head, one column, one chunk of positions:
//   part = (max, sum, sum_p exp(s_p - max) v_p).
//   Bindings as in `attention`. A tile is 32 positions of one page. For scores each lane has four of
//   them, as matvec_rows has rows; q comes by broadcast. For values each lane has eight dimensions of
//   every 64, and probabilities come by broadcast. hdp <= 64 BLOCKS; page_len a multiple of 32.
#use types
#use attention_io
#use x
#use kv
#use attention_out

override HEADS: u32 = 4u;
const WG = 8u;
const LOW: f32 = -3.0e38;

fn dot32(k: W32, q: W32) -> f32 {
    let a = k.w0 * q.w0 + k.w1 * q.w1 + k.w2 * q.w2 + k.w3 * q.w3;
    let b = k.w4 * q.w4 + k.w5 * q.w5 + k.w6 * q.w6 + k.w7 * q.w7 + a;
    return (b.x + b.y) + (b.z + b.w);
}

override TAIL: u32 = 0u; // words of 8 dimensions that 32 leave of hdp
override WHOLE: bool = true; // hdp is 32 at least

// Keys of four positions, 32 dimensions.
struct Keys {
    p0: W32,
    p1: W32,
    p2: W32,
    p3: W32,
}

fn k32(at: KvAt, i: u32) -> W32 {
    let a = kload(at, i);
    let b = kload(at, i + 1u);
    let c = kload(at, i + 2u);
    let d = kload(at, i + 3u);
    return W32(lo(a), hi(a), lo(b), hi(b), lo(c), hi(c), lo(d), hi(d));
}

// Words behind the first TAIL are read as that one: they may lie outside, and count nothing (`some`).
fn tail32(at: KvAt, i: u32) -> W32 {
    let a = kload(at, i);
    let b = kload(at, i + select(0u, 1u, TAIL > 1u));
    let c = kload(at, i + select(0u, 2u, TAIL > 2u));
    return W32(lo(a), hi(a), lo(b), hi(b), lo(c), hi(c), lo(c), hi(c));
}

// 32 dimensions of q; (tail) its first TAIL words, with zeros behind.
fn part_of(v: W32, tail: bool) -> W32 {
    if !tail {
        return v;
    }
    let z = vec4<f32>();
    return W32(v.w0, v.w1, select(z, v.w2, TAIL > 1u), select(z, v.w3, TAIL > 1u), select(z, v.w4, TAIL > 2u), select(z, v.w5, TAIL > 2u), z, z);
}

// Adds to scores, [head] of [position], what 32 dimensions make, or (tail) TAIL words of them.
fn scored(s: mat4x4<f32>, k: Keys, q: vec4<u32>, i: u32, lane: u32, tail: bool) -> mat4x4<f32> {
    var r = s;
    r[0] += dots(k, part_of(xblock(q.x + i, lane).x, tail));
    if HEADS > 1u {
        r[1] += dots(k, part_of(xblock(q.y + i, lane).x, tail));
    }
    if HEADS > 2u {
        r[2] += dots(k, part_of(xblock(q.z + i, lane).x, tail));
    }
    if HEADS > 3u {
        r[3] += dots(k, part_of(xblock(q.w + i, lane).x, tail));
    }
    return r;
}

fn dots(k: Keys, q: W32) -> vec4<f32> {
    return vec4<f32>(dot32(k.p0, q), dot32(k.p1, q), dot32(k.p2, q), dot32(k.p3, q));
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let kv = wid.x / P.blocks;
    let group = P.n_head / P.n_kv;
    let block = (wid.x % P.blocks) * P.heads;
    let heads = min(P.heads, group - block);
    let head0 = kv * group + block;
    let col = cols[1u + P.col0 + wid.y];
    var first = wid.z * P.chunk;
    if P.window > 0u && col.y + 1u > P.window {
        first = max(first, col.y + 1u - P.window);
    }
    let end = select(0u, min(col.y + 1u, (wid.z + 1u) * P.chunk), (col.w & 1u) == 1u);
    if first >= end {
        return;
    }
    let words = P.hdp / 8u;
    // Heads this block does not have are scored as its first one and never written.
    let has = vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(heads);
    let q = wid.y * P.q_stride + (head0 + select(vec4<u32>(), vec4<u32>(0u, 1u, 2u, 3u), has)) * (P.hdp / 4u);
    var m = vec4<f32>(LOW);
    var l = vec4<f32>();
    var t = first / 32u * 32u;
    loop {
        let page = pages[col.z * P.pages_per_slot + t / P.page_len];
        let at = kv_at(page, kv, t % P.page_len);
        // Positions outside are read as the nearest inside, and count nothing.
        let low = max(first, t) - t;
        let high = min(end, t + 32u) - 1u - t;
        let mine = lane + vec4<u32>(0u, 8u, 16u, 24u);
        let i = clamp(mine, vec4<u32>(low), vec4<u32>(high)) * words;
        var s = mat4x4<f32>();
        if WHOLE {
            var j = 0u;
            loop {
                let k = Keys(k32(at, i.x + j), k32(at, i.y + j), k32(at, i.z + j), k32(at, i.w + j));
                s = scored(s, k, q, 2u * j, lane, false);
                j += 4u;
                continuing {
                    break if j + 4u > words;
                }
            }
        }
        if TAIL > 0u {
            let j = words - TAIL;
            let k = Keys(tail32(at, i.x + j), tail32(at, i.y + j), tail32(at, i.z + j), tail32(at, i.w + j));
            s = scored(s, k, q, 2u * j, lane, true);
        }
        let p = transpose(s) * P.scale; // [position] of [head]
        let out = vec4<f32>(LOW);
        let seen = (mine >= vec4<u32>(low)) & (mine <= vec4<u32>(high));
        let p0 = select(out, p[0], seen.x);
        let p1 = select(out, p[1], seen.y);
        let p2 = select(out, p[2], seen.z);
        let p3 = select(out, p[3], seen.w);
        let top = max(m, subgroupMax(max(max(p0, p1), max(p2, p3))));
        let shrink = exp(m - top);
        let e = mat4x4<f32>(exp(p0 - top), exp(p1 - top), exp(p2 - top), exp(p3 - top));
        l = l * shrink + (e[0] + e[1]) + (e[2] + e[3]);
        m = top;
        shrink_all(shrink);
        var k = 0u;
        loop {
            value_all(at, low, high, 8u * k, lane, words, spread(e[k]));
            k++;
            continuing {
                break if k == 4u;
            }
        }
        t += 32u;
        continuing {
            break if t >= end;
        }
    }
    let step = P.n_chunks * (1u + P.hdp / 4u); // from head to head
    let row = (((P.col0 + wid.y) * P.n_head + head0) * P.n_chunks + wid.z) * (1u + P.hdp / 4u);
    let sum = subgroupAdd(l);
    for (var k = lane; k < heads; k += WG) {
        part[row + k * step] = vec4<f32>(m[k], sum[k], 0.0, 0.0);
    }
    put_all(row, step, lane, words, heads);
}
