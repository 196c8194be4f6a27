// slot cache = texture: what `kv_texture` reads, to be written.
#use at_texture

@group(0) @binding(7) var kc: texture_storage_2d_array<rgba32uint, write>;
@group(0) @binding(8) var vc: texture_storage_2d_array<rgba32uint, write>;

fn kstore(at: KvAt, i: u32, v: vec4<u32>) {
    let w = at.word + i;
    textureStore(kc, vec2<u32>(w & 63u, w >> 6u), at.layer, v);
}

fn vstore(at: KvAt, i: u32, v: vec4<u32>) {
    let w = at.word + i;
    textureStore(vc, vec2<u32>(w & 63u, w >> 6u), at.layer, v);
}
