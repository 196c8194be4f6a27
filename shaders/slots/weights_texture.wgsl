// slot weights = texture: the same words as texels of an rgba32uint texture of 2^P.tex_shift texels
// per line. Faster than storage on software devices and on GPUs whose cache sits behind textures.
@group(0) @binding(1) var w: texture_2d<u32>;

fn wload(i: u32) -> vec4<u32> {
    return textureLoad(w, vec2<u32>(i & ((1u << P.tex_shift) - 1u), i >> P.tex_shift), 0);
}
