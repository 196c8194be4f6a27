// slot kv = texture: the cache as images of 64 words of 8 f16 a line, 2^P.layer_shift pages a layer. A
// software device turns a load from storage into a loop over its lanes, one from an image it does not.
#use at_texture

@group(0) @binding(1) var kc: texture_storage_2d_array<rgba32uint, read>;
@group(0) @binding(3) var vc: texture_storage_2d_array<rgba32uint, read>;

fn kload(at: KvAt, i: u32) -> vec4<u32> {
    let w = at.word + i;
    return textureLoad(kc, vec2<u32>(w & 63u, w >> 6u), at.layer);
}

fn vload(at: KvAt, i: u32) -> vec4<u32> {
    let w = at.word + i;
    return textureLoad(vc, vec2<u32>(w & 63u, w >> 6u), at.layer);
}
