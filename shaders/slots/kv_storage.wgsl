// slot kv = storage: the cache as arrays of words of 8 f16.
@group(0) @binding(1) var<storage, read> kc: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> vc: array<vec4<u32>>;

struct KvAt {
    word: u32,
}

// Where K and V of a position of a page begin.
fn kv_at(page: u32, kv: u32, position: u32) -> KvAt {
    return KvAt(((page * P.n_kv + kv) * P.page_len + position) * (P.hdp / 8u));
}

fn kload(at: KvAt, i: u32) -> vec4<u32> {
    return kc[at.word + i];
}

fn vload(at: KvAt, i: u32) -> vec4<u32> {
    return vc[at.word + i];
}
