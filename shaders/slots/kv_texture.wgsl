// slot kv = texture: the cache as images of 64 words of 8 f16 a line, 2^P.layer_shift pages a layer. A
// software device turns a load from storage into a loop over its lanes, one from an image it does not.
@group(0) @binding(1) var kc: texture_storage_2d_array<rgba32uint, read>;
@group(0) @binding(3) var vc: texture_storage_2d_array<rgba32uint, read>;

struct KvAt {
    layer: u32,
    word: u32,
}

// Where K and V of a position of a page begin.
fn kv_at(page: u32, kv: u32, position: u32) -> KvAt {
    let page_in = page & ((1u << P.layer_shift) - 1u);
    let word = ((page_in * P.n_kv + kv) * P.page_len + position) * (P.hdp / 8u);
    return KvAt(page >> P.layer_shift, word);
}

fn kload(at: KvAt, i: u32) -> vec4<u32> {
    let w = at.word + i;
    return textureLoad(kc, vec2<u32>(w & 63u, w >> 6u), at.layer);
}

fn vload(at: KvAt, i: u32) -> vec4<u32> {
    let w = at.word + i;
    return textureLoad(vc, vec2<u32>(w & 63u, w >> 6u), at.layer);
}
