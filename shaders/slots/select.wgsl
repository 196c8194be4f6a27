// Selection for the sampler: the least logit that a filter keeps, by radix select over keys that
// order like the floats, 8 bits a round, with integer weights: atomics in any order give one result.
// Reads `logits` and `part` of the including kernel. Every lane must call `least` and `gather`.
const CAP: u32 = 1024u;
const FINITE: u32 = 0x00800000u; // key of the least finite number

// Where keys come from: 0 the logits, 1 the largest of each part, 2 the list of candidates.
struct Source {
    kind: u32,
    base: u32,
    n: u32,
}

var<workgroup> pick: vec4<u32>;
var<workgroup> hist: array<atomic<u32>, 256>;
var<workgroup> hist16: array<u32, 16>;
var<workgroup> list_n: atomic<u32>;
var<workgroup> list_key: array<u32, CAP>;
var<workgroup> list_id: array<u32, CAP>;
var<private> top: f32; // the largest logit

fn key_of(v: f32) -> u32 {
    let b = select(bitcast<u32>(v), 0u, v == 0.0);
    return select(b | 0x80000000u, ~b, (b >> 31u) == 1u);
}

fn value_of(key: u32) -> f32 {
    return bitcast<f32>(select(~key, key ^ 0x80000000u, (key >> 31u) == 1u));
}

fn key_at(s: Source, i: u32) -> u32 {
    if s.kind == 2u {
        return list_key[i];
    } else if s.kind == 1u {
        return key_of(bitcast<f32>(part[s.base + i].x));
    }
    return key_of(logits[s.base + i]);
}

// (key, sum): the key at which the weights of all keys >= low, added from the largest down, reach
// `need`, or 0; and that sum. A key weighs 1, or with scale > 0 scale exp(value - top); `need` = 0
// stands for the share p of the whole.
fn least(s: Source, low: u32, need: u32, p: f32, scale: f32, id: u32) -> vec2<u32> {
    var r = vec4<u32>(0u, need, 0u, 0u); // key so far, what is still needed, weight of the last bin
    var sum = 0u;
    for (var round = 0u; round < 4u; round++) {
        let shift = 24u - 8u * round;
        for (var i = id; i < 256u; i += WG) {
            atomicStore(&hist[i], 0u);
        }
        workgroupBarrier();
        for (var i = id; i < s.n; i += WG) {
            let k = key_at(s, i);
            if k >= low && (((k ^ r.x) >> shift) >> 8u) == 0u {
                var weight = 1u;
                if scale > 0.0 {
                    weight = u32(exp(value_of(k) - top) * scale + 0.5);
                }
                atomicAdd(&hist[(k >> shift) & 255u], weight);
            }
        }
        workgroupBarrier();
        for (var i = id; i < 16u; i += WG) {
            var t = 0u;
            for (var j = 0u; j < 16u; j++) {
                t += atomicLoad(&hist[16u * i + j]);
            }
            hist16[i] = t;
        }
        workgroupBarrier();
        if id == 0u {
            var left = r.y;
            if left == 0u {
                var whole = 0u;
                for (var j = 0u; j < 16u; j++) {
                    whole += hist16[j];
                }
                left = max(1u, u32(p * f32(whole)));
            }
            let want = left;
            var b = 15u;
            for (; b > 0u && left > hist16[b]; b--) {
                left -= hist16[b];
            }
            var i = 16u * b + 15u;
            for (; i > 16u * b && left > atomicLoad(&hist[i]); i--) {
                left -= atomicLoad(&hist[i]);
            }
            pick = vec4<u32>(r.x | (i << shift), left, atomicLoad(&hist[i]), want - left);
        }
        r = workgroupUniformLoad(&pick);
        sum += r.w;
    }
    return vec2<u32>(r.x, sum + r.z);
}

// The logits with key >= low as a list, or all logits if they are too many.
fn gather(all: Source, low: u32, id: u32) -> Source {
    if id == 0u {
        atomicStore(&list_n, 0u);
    }
    workgroupBarrier();
    for (var i = id; i < all.n; i += WG) {
        let k = key_at(all, i);
        if k >= low {
            let at = atomicAdd(&list_n, 1u);
            if at < CAP {
                list_key[at] = k;
                list_id[at] = i;
            }
        }
    }
    workgroupBarrier();
    if id == 0u {
        pick.x = atomicLoad(&list_n);
    }
    let n = workgroupUniformLoad(&pick).x;
    if n > CAP {
        return all;
    }
    return Source(2u, 0u, n);
}
