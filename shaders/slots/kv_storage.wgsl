// slot kv = storage: the cache as arrays of words of 8 f16.
#use at_storage

@group(0) @binding(1) var<storage, read> kc: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> vc: array<vec4<u32>>;

fn kload(at: KvAt, i: u32) -> vec4<u32> {
    return kc[at.word + i];
}

fn vload(at: KvAt, i: u32) -> vec4<u32> {
    return vc[at.word + i];
}
