// Chooses the next token of a slot and advances the slot, one workgroup per logits row. Filters as
// in llama.cpp: top_k, then top_p of what is left (the smallest set with at least that mass), then
// min_p, then the temperature and a seeded draw: argmax of l / temp + Gumbel noise.
//   logits: [rows, stride] f32; part: [row, n_parts] of logits_part; rows: slot of each logits row
//   (0xffffffff: none); slots: Slot; cols: batch, column 1 + s belongs to slot s and gets (id,
//   position + 1, s, flags); history: [slot, hist_stride]; ring: [slot, ring_len] of sampled ids.
// A filter is a least logit that it keeps; logits equal to that all stay. NaN, +inf or no finite
// logit: the id is 0xffffffff and the slot's active bit is cleared. WG: a power of two, up to 256.
#use group
#use slot
#use draw
#use select

struct Params {
    n_vocab: u32, // below 2^24
    stride: u32,
    n_parts: u32,
    hist_stride: u32,
    ring_len: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read> part: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> rows: array<u32>;
@group(0) @binding(4) var<storage, read_write> slots: array<Slot>;
@group(0) @binding(5) var<storage, read_write> cols: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> history: array<u32>;
@group(0) @binding(7) var<storage, read_write> ring: array<u32>;

override WG: u32 = 256u;
const LOW: f32 = -3.4e38;
const NONE: u32 = 0xffffffffu;
const ONE: f32 = 2147483648.0;   // a mass of 1 in fixed point

var<workgroup> who: u32;
var<workgroup> state: Slot;

struct Kept {
    src: Source,
    low: u32, // key of the least logit
}

// What the filters leave. z: sum of exp(l - top) over all logits.
fn filtered(c: Slot, row: u32, z: f32, id: u32) -> Kept {
    let all = Source(0u, row * P.stride, P.n_vocab);
    var src = all;
    var low = FINITE;
    var kept = P.n_vocab;
    let by_count = c.top_k > 0u && c.top_k < P.n_vocab;
    let floor_ = key_of(top + min(log(max(c.min_p, 1e-30)), 0.0));
    if by_count {
        if c.top_k <= P.n_parts {
            // k parts whose largest is >= t hold k logits >= t: a first bound for one look at each part.
            low = max(low, least(Source(1u, row * P.n_parts, P.n_parts), low, c.top_k, 0.0, 0.0, id).x);
            src = gather(all, low, id);
        }
        let t = least(src, low, c.top_k, 0.0, 0.0, id);
        low = max(low, t.x);
        kept = t.y;
        if src.kind == 0u {
            src = gather(all, low, id);
        }
    } else if c.min_p > 0.0 {
        // The mass is known without a look at each logit: what min_p will drop need not be walked.
        low = max(low, floor_);
        src = gather(all, low, id);
    }
    if c.top_p < 1.0 {
        let scale = ONE / min(z, f32(kept));
        let need = select(max(1u, u32(c.top_p * ONE)), 0u, by_count);
        low = max(low, least(src, low, need, c.top_p, scale, id).x);
    }
    if c.min_p > 0.0 {
        low = max(low, floor_);
    }
    return Kept(src, low);
}

// Gumbel-max over the keys >= low, the lowest id on a tie.
fn draw(c: Slot, kept: Kept, lane: Lane) -> u32 {
    let src = kept.src;
    var best = LOW;
    var id = NONE;
    for (var i = lane.id; i < src.n; i += WG) {
        let k = key_at(src, i);
        if k >= kept.low {
            var t = i;
            if src.kind == 2u {
                t = list_id[i];
            }
            let h = pcg4d(vec4<u32>(c.seed_lo, c.seed_hi, c.count, t)).x;
            let score = (value_of(k) - top) / c.temp + gumbel(h);
            if score > best || (score == best && t < id) {
                best = score;
                id = t;
            }
        }
    }
    let win = group_max(vec4<f32>(best, 0.0, 0.0, 0.0), lane).x;
    let mine = id != NONE && best == win;
    return u32(-group_max(vec4<f32>(select(-16777216.0, -f32(id), mine), 0.0, 0.0, 0.0), lane).x);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, lane: Lane) {
    if lane.id == 0u {
        var s = rows[wid.x];
        if s != NONE {
            state = slots[s];
            if (cols[1u + s].w & 1u) == 0u {
                s = NONE;
            }
        }
        who = s;
    }
    let s = workgroupUniformLoad(&who);
    if s == NONE {
        return;
    }
    let c = workgroupUniformLoad(&state);
    // Join the parts: largest logit, its lowest index, sum of exp(l - top), count of bad ones.
    var best = LOW;
    for (var i = lane.id; i < P.n_parts; i += WG) {
        best = max(best, bitcast<f32>(part[wid.x * P.n_parts + i].x));
    }
    top = group_max(vec4<f32>(best, 0.0, 0.0, 0.0), lane).x;
    var at = -16777216.0;
    var sum = vec4<f32>();
    for (var i = lane.id; i < P.n_parts; i += WG) {
        let v = part[wid.x * P.n_parts + i];
        let m = bitcast<f32>(v.x);
        if m == top {
            at = max(at, -f32(v.y));
        }
        sum += vec4<f32>(bitcast<f32>(v.z) * exp(m - top), f32(v.w), 0.0, 0.0);
    }
    at = group_max(vec4<f32>(at, 0.0, 0.0, 0.0), lane).x;
    sum = group_sum(sum, lane);
    if lane.id == 0u {
        pick = vec4<u32>(u32(-at), u32(sum.y == 0.0 && top > LOW), 0u, 0u);
    }
    let joined = workgroupUniformLoad(&pick);
    var id = joined.x;
    if joined.y == 0u {
        id = NONE;
    } else if c.temp >= 1e-6 && c.top_k != 1u {
        id = draw(c, filtered(c, wid.x, sum.x, lane.id), lane);
    }
    if lane.id != 0u {
        return;
    }
    let col = cols[1u + s];
    ring[s * P.ring_len + c.count % P.ring_len] = id;
    slots[s].count = c.count + 1u;
    if id == NONE {
        cols[1u + s].w = col.w & ~1u;
        return;
    }
    if c.hist_len < P.hist_stride {
        history[s * P.hist_stride + c.hist_len] = id;
    }
    slots[s].hist_len = c.hist_len + 1u;
    cols[1u + s] = vec4<u32>(id, col.y + 1u, s, col.w);
}
