// slot cache = storage: what `kv_storage` reads, to be written.
@group(0) @binding(7) var<storage, read_write> kc: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> vc: array<vec4<u32>>;

fn kv_at(page: u32, kv: u32, position: u32) -> u32 {
    return ((page * P.n_kv + kv) * P.page_len + position) * (P.hdp / 8u);
}

fn kstore(at: u32, i: u32, v: vec4<u32>) {
    kc[at + i] = v;
}

fn vstore(at: u32, i: u32, v: vec4<u32>) {
    vc[at + i] = v;
}
