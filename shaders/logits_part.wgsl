// First pass over the logits of a column: per workgroup the largest, where it is (lowest index on a
// tie), the sum of exp(l - largest), and how many are NaN or +inf. Nothing finite: (LOW, first, 0, bad).
//   logits: [columns, stride] f32; part: [column, n_parts] of the bits of (max, index, sum, bad count).
// The words are u32: an index moved as an f32 would be a subnormal, which drivers flush.
// Workgroup (x, y) = (part, column).
#use group

struct Params {
    n_vocab: u32,
    stride: u32,
    n_parts: u32,
    span: u32, // logits per part
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> part: array<vec4<u32>>;

override WG: u32 = 64u;

const LOW: f32 = -3.4e38;

// NaN and +inf by their bits: a driver may assume that comparisons never see them.
fn is_bad(v: f32) -> bool {
    let b = bitcast<u32>(v);
    return (b & 0x7fffffffu) > 0x7f800000u || b == 0x7f800000u;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, lane: Lane) {
    let base = wid.y * P.stride;
    let first = wid.x * P.span;
    let end = min(P.n_vocab, first + P.span);
    var best = LOW;
    var bad = 0.0;
    for (var i = first + lane.id; i < end; i += WG) {
        let v = logits[base + i];
        if is_bad(v) {
            bad += 1.0;
        } else {
            best = max(best, v);
        }
    }
    let top = group_max(vec4<f32>(best, 0.0, 0.0, 0.0), lane).x;
    // Indices are below 2^24 apart from `first`, so their negation is exact as f32.
    var at = -16777216.0;
    var sum = 0.0;
    for (var i = first + lane.id; i < end; i += WG) {
        let v = logits[base + i];
        if !is_bad(v) {
            if v == top {
                at = max(at, -f32(i - first));
            }
            sum += exp(v - top);
        }
    }
    let where_ = group_max(vec4<f32>(at, 0.0, 0.0, 0.0), lane).x;
    let totals = group_sum(vec4<f32>(sum, bad, 0.0, 0.0), lane);
    if lane.id == 0u {
        let index = first + select(0u, u32(-where_), top > LOW);
        part[wid.y * P.n_parts + wid.x] = vec4<u32>(bitcast<u32>(top), index, bitcast<u32>(totals.x), u32(totals.y));
    }
}
