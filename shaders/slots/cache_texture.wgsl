// slot cache = texture: what `kv_texture` reads, to be written.
@group(0) @binding(7) var kc: texture_storage_2d_array<rgba32uint, write>;
@group(0) @binding(8) var vc: texture_storage_2d_array<rgba32uint, write>;

fn kv_at(page: u32, kv: u32, position: u32) -> vec2<u32> {
    let page_in = page & ((1u << P.layer_shift) - 1u);
    let word = ((page_in * P.n_kv + kv) * P.page_len + position) * (P.hdp / 8u);
    return vec2<u32>(page >> P.layer_shift, word);
}

fn kstore(at: vec2<u32>, i: u32, v: vec4<u32>) {
    let w = at.y + i;
    textureStore(kc, vec2<u32>(w & 63u, w >> 6u), at.x, v);
}

fn vstore(at: vec2<u32>, i: u32, v: vec4<u32>) {
    let w = at.y + i;
    textureStore(vc, vec2<u32>(w & 63u, w >> 6u), at.x, v);
}
