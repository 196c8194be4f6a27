// Repeat penalty: each distinct token t among the last repeat_last_n of a slot's sequence, once:
//   l[t] = l[t] > 0 ? l[t] / penalty : l[t] * penalty.
//   logits: [rows, stride] f32; rows: slot of each logits row (0xffffffff: none); slots: Slot;
//   cols: batch, column 1 + s belongs to slot s; history: [slot, hist_stride] token ids.
// One workgroup per logits row. A bitmap marks what is done, 65536 tokens of the vocabulary a round,
// and whoever sets a bit first applies the penalty. Tokens past n_vocab are passed over.
#use slot

struct Params {
    n_vocab: u32,
    stride: u32,
    hist_stride: u32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> slots: array<Slot>;
@group(0) @binding(2) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> history: array<u32>;
@group(0) @binding(4) var<storage, read> rows: array<u32>;
@group(0) @binding(5) var<storage, read_write> logits: array<f32>;

override WG: u32 = 64u;
const WORDS: u32 = 2048u;

var<workgroup> range: vec2<u32>; // first and end word of history
var<workgroup> penalty: f32;
var<workgroup> seen: array<atomic<u32>, WORDS>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lid: u32) {
    if lid == 0u {
        let s = rows[wid.x];
        var r = vec2<u32>();
        if s != 0xffffffffu && (cols[1u + s].w & 1u) == 1u && slots[s].repeat_penalty != 1.0 {
            let n = min(slots[s].hist_len, P.hist_stride);
            r = s * P.hist_stride + vec2<u32>(n - min(n, slots[s].repeat_last_n), n);
            penalty = slots[s].repeat_penalty;
        }
        range = r;
    }
    let r = workgroupUniformLoad(&range);
    if r.x >= r.y {
        return;
    }
    for (var first = 0u; first < P.n_vocab; first += 32u * WORDS) {
        for (var i = lid; i < WORDS; i += WG) {
            atomicStore(&seen[i], 0u);
        }
        workgroupBarrier();
        for (var i = r.x + lid; i < r.y; i += WG) {
            let t = history[i] - first; // wraps to something large below `first`
            if history[i] < P.n_vocab && t < 32u * WORDS {
                let bit = 1u << (t & 31u);
                if (atomicOr(&seen[t >> 5u], bit) & bit) == 0u {
                    let at = wid.x * P.stride + first + t;
                    let l = logits[at];
                    logits[at] = select(l * penalty, l / penalty, l > 0.0);
                }
            }
        }
        workgroupBarrier();
    }
}
