// Where the KV cache has what, as layered images (slots kv, cache = texture).
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
