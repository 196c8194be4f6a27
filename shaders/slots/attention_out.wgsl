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

fn shrunk_out(o: Out, s: vec4<f32>) -> Out {
    return Out(o.a0 * s.x, o.b0 * s.x, o.a1 * s.y, o.b1 * s.y, o.a2 * s.z, o.b2 * s.z, o.a3 * s.w, o.b3 * s.w);
}

fn added(o: Out, v: vec4<u32>, e: vec4<f32>) -> Out {
    let a = lo(v);
    let b = hi(v);
    var r = o;
    r.a0 += e.x * a;
    r.b0 += e.x * b;
    if HEADS > 1u {
        r.a1 += e.y * a;
        r.b1 += e.y * b;
    }
    if HEADS > 2u {
        r.a2 += e.z * a;
        r.b2 += e.z * b;
    }
    if HEADS > 3u {
        r.a3 += e.w * a;
        r.b3 += e.w * b;
    }
    return r;
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
struct Sums {
    o0: Out,
    o1: Out,
    o2: Out,
    o3: Out,
    o4: Out,
    o5: Out,
    o6: Out,
    o7: Out,
}

fn shrunk(o: Sums, s: vec4<f32>) -> Sums {
    var r = o;
    r.o0 = shrunk_out(o.o0, s);
    if BLOCKS > 1u {
        r.o1 = shrunk_out(o.o1, s);
    }
    if BLOCKS > 2u {
        r.o2 = shrunk_out(o.o2, s);
    }
    if BLOCKS > 3u {
        r.o3 = shrunk_out(o.o3, s);
    }
    if BLOCKS > 4u {
        r.o4 = shrunk_out(o.o4, s);
    }
    if BLOCKS > 5u {
        r.o5 = shrunk_out(o.o5, s);
    }
    if BLOCKS > 6u {
        r.o6 = shrunk_out(o.o6, s);
    }
    if BLOCKS > 7u {
        r.o7 = shrunk_out(o.o7, s);
    }
    return r;
}

// Adds eight positions from `k` on (those outside of low..=high read as the nearest inside) to word `d`.
fn valued_out(o: Out, at: KvAt, low: u32, high: u32, k: u32, d: u32, words: u32, e: Eight) -> Out {
    let i = min(d, words - 1u);
    var r = added(o, vload(at, clamp(k, low, high) * words + i), e.e0);
    r = added(r, vload(at, clamp(k + 1u, low, high) * words + i), e.e1);
    r = added(r, vload(at, clamp(k + 2u, low, high) * words + i), e.e2);
    r = added(r, vload(at, clamp(k + 3u, low, high) * words + i), e.e3);
    r = added(r, vload(at, clamp(k + 4u, low, high) * words + i), e.e4);
    r = added(r, vload(at, clamp(k + 5u, low, high) * words + i), e.e5);
    r = added(r, vload(at, clamp(k + 6u, low, high) * words + i), e.e6);
    r = added(r, vload(at, clamp(k + 7u, low, high) * words + i), e.e7);
    return r;
}

fn valued(o: Sums, at: KvAt, low: u32, high: u32, k: u32, lane: u32, words: u32, e: Eight) -> Sums {
    var r = o;
    r.o0 = valued_out(o.o0, at, low, high, k, lane + 0u, words, e);
    if BLOCKS > 1u {
        r.o1 = valued_out(o.o1, at, low, high, k, lane + 8u, words, e);
    }
    if BLOCKS > 2u {
        r.o2 = valued_out(o.o2, at, low, high, k, lane + 16u, words, e);
    }
    if BLOCKS > 3u {
        r.o3 = valued_out(o.o3, at, low, high, k, lane + 24u, words, e);
    }
    if BLOCKS > 4u {
        r.o4 = valued_out(o.o4, at, low, high, k, lane + 32u, words, e);
    }
    if BLOCKS > 5u {
        r.o5 = valued_out(o.o5, at, low, high, k, lane + 40u, words, e);
    }
    if BLOCKS > 6u {
        r.o6 = valued_out(o.o6, at, low, high, k, lane + 48u, words, e);
    }
    if BLOCKS > 7u {
        r.o7 = valued_out(o.o7, at, low, high, k, lane + 56u, words, e);
    }
    return r;
}

fn put_all(o: Sums, row: u32, step: u32, lane: u32, words: u32, heads: u32) {
    put(o.o0, row, step, lane + 0u, words, heads);
    if BLOCKS > 1u {
        put(o.o1, row, step, lane + 8u, words, heads);
    }
    if BLOCKS > 2u {
        put(o.o2, row, step, lane + 16u, words, heads);
    }
    if BLOCKS > 3u {
        put(o.o3, row, step, lane + 24u, words, heads);
    }
    if BLOCKS > 4u {
        put(o.o4, row, step, lane + 32u, words, heads);
    }
    if BLOCKS > 5u {
        put(o.o5, row, step, lane + 40u, words, heads);
    }
    if BLOCKS > 6u {
        put(o.o6, row, step, lane + 48u, words, heads);
    }
    if BLOCKS > 7u {
        put(o.o7, row, step, lane + 56u, words, heads);
    }
}
