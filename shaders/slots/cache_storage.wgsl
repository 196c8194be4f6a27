// slot cache = storage: what `kv_storage` reads, to be written.
#use at_storage

@group(0) @binding(7) var<storage, read_write> kc: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> vc: array<vec4<u32>>;

fn kstore(at: KvAt, i: u32, v: vec4<u32>) {
    kc[at.word + i] = v;
}

fn vstore(at: KvAt, i: u32, v: vec4<u32>) {
    vc[at.word + i] = v;
}
