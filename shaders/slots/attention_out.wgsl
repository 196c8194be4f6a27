// What a lane of attention_rows sums up: eight dimensions, for up to four heads.
struct Out {
    a0: vec4<f32>,
    b0: vec4<f32>,
    a1: vec4<f32>,
    b1: vec4<f32>,
    a2: vec4<f32>,
    b2: vec4<f32>,
    a3: vec4<f32>,
    b3: vec4<f32>,
}

fn shrink_out(o: ptr<private, Out>, s: vec4<f32>) {
    (*o).a0 *= s.x;
    (*o).b0 *= s.x;
    if HEADS > 1u {
        (*o).a1 *= s.y;
        (*o).b1 *= s.y;
    }
    if HEADS > 2u {
        (*o).a2 *= s.z;
        (*o).b2 *= s.z;
    }
    if HEADS > 3u {
        (*o).a3 *= s.w;
        (*o).b3 *= s.w;
    }
}

fn add(o: ptr<private, Out>, v: vec4<u32>, e: vec4<f32>) {
    let a = lo(v);
    let b = hi(v);
    (*o).a0 += e.x * a;
    (*o).b0 += e.x * b;
    if HEADS > 1u {
        (*o).a1 += e.y * a;
        (*o).b1 += e.y * b;
    }
    if HEADS > 2u {
        (*o).a2 += e.z * a;
        (*o).b2 += e.z * b;
    }
    if HEADS > 3u {
        (*o).a3 += e.w * a;
        (*o).b3 += e.w * b;
    }
}

// Probabilities of eight positions, by head.
struct Eight {
    e0: vec4<f32>,
    e1: vec4<f32>,
    e2: vec4<f32>,
    e3: vec4<f32>,
    e4: vec4<f32>,
    e5: vec4<f32>,
    e6: vec4<f32>,
    e7: vec4<f32>,
}

fn spread(e: vec4<f32>) -> Eight {
    return Eight(
        subgroupBroadcast(e, 0u),
        subgroupBroadcast(e, 1u),
        subgroupBroadcast(e, 2u),
        subgroupBroadcast(e, 3u),
        subgroupBroadcast(e, 4u),
        subgroupBroadcast(e, 5u),
        subgroupBroadcast(e, 6u),
        subgroupBroadcast(e, 7u),
    );
}

// Writes the sums of word `d` for the heads there are; their rows of `part` are `step` apart.
fn put(o: Out, row: u32, step: u32, d: u32, words: u32, heads: u32) {
    if d >= words {
        return;
    }
    let i = row + 1u + 2u * d;
    part[i] = o.a0;
    part[i + 1u] = o.b0;
    if heads > 1u {
        part[i + step] = o.a1;
        part[i + step + 1u] = o.b1;
    }
    if heads > 2u {
        part[i + 2u * step] = o.a2;
        part[i + 2u * step + 1u] = o.b2;
    }
    if heads > 3u {
        part[i + 3u * step] = o.a3;
        part[i + 3u * step + 1u] = o.b3;
    }
}

override BLOCKS: u32 = 8u; // of 64 dimensions, up to 8

// Of all blocks: a lane has word `lane` of each.
var<private> o0: Out;
var<private> o1: Out;
var<private> o2: Out;
var<private> o3: Out;
var<private> o4: Out;
var<private> o5: Out;
var<private> o6: Out;
var<private> o7: Out;

fn shrink_all(s: vec4<f32>) {
    shrink_out(&o0, s);
    if BLOCKS > 1u {
        shrink_out(&o1, s);
    }
    if BLOCKS > 2u {
        shrink_out(&o2, s);
    }
    if BLOCKS > 3u {
        shrink_out(&o3, s);
    }
    if BLOCKS > 4u {
        shrink_out(&o4, s);
    }
    if BLOCKS > 5u {
        shrink_out(&o5, s);
    }
    if BLOCKS > 6u {
        shrink_out(&o6, s);
    }
    if BLOCKS > 7u {
        shrink_out(&o7, s);
    }
}

// Adds eight positions from `k` on (those outside of low..=high read as the nearest inside) to word `d`.
fn value_out(o: ptr<private, Out>, at: KvAt, low: u32, high: u32, k: u32, d: u32, words: u32, e: Eight) {
    let i = min(d, words - 1u);
    add(o, vload(at, clamp(k, low, high) * words + i), e.e0);
    add(o, vload(at, clamp(k + 1u, low, high) * words + i), e.e1);
    add(o, vload(at, clamp(k + 2u, low, high) * words + i), e.e2);
    add(o, vload(at, clamp(k + 3u, low, high) * words + i), e.e3);
    add(o, vload(at, clamp(k + 4u, low, high) * words + i), e.e4);
    add(o, vload(at, clamp(k + 5u, low, high) * words + i), e.e5);
    add(o, vload(at, clamp(k + 6u, low, high) * words + i), e.e6);
    add(o, vload(at, clamp(k + 7u, low, high) * words + i), e.e7);
}

fn value_all(at: KvAt, low: u32, high: u32, k: u32, lane: u32, words: u32, e: Eight) {
    value_out(&o0, at, low, high, k, lane, words, e);
    if BLOCKS > 1u {
        value_out(&o1, at, low, high, k, lane + 8u, words, e);
    }
    if BLOCKS > 2u {
        value_out(&o2, at, low, high, k, lane + 16u, words, e);
    }
    if BLOCKS > 3u {
        value_out(&o3, at, low, high, k, lane + 24u, words, e);
    }
    if BLOCKS > 4u {
        value_out(&o4, at, low, high, k, lane + 32u, words, e);
    }
    if BLOCKS > 5u {
        value_out(&o5, at, low, high, k, lane + 40u, words, e);
    }
    if BLOCKS > 6u {
        value_out(&o6, at, low, high, k, lane + 48u, words, e);
    }
    if BLOCKS > 7u {
        value_out(&o7, at, low, high, k, lane + 56u, words, e);
    }
}

fn put_all(row: u32, step: u32, lane: u32, words: u32, heads: u32) {
    put(o0, row, step, lane + 0u, words, heads);
    if BLOCKS > 1u {
        put(o1, row, step, lane + 8u, words, heads);
    }
    if BLOCKS > 2u {
        put(o2, row, step, lane + 16u, words, heads);
    }
    if BLOCKS > 3u {
        put(o3, row, step, lane + 24u, words, heads);
    }
    if BLOCKS > 4u {
        put(o4, row, step, lane + 32u, words, heads);
    }
    if BLOCKS > 5u {
        put(o5, row, step, lane + 40u, words, heads);
    }
    if BLOCKS > 6u {
        put(o6, row, step, lane + 48u, words, heads);
    }
    if BLOCKS > 7u {
        put(o7, row, step, lane + 56u, words, heads);
    }
}
