// Where the KV cache has what, as arrays of words of 8 f16 (slots kv, cache = storage).
struct KvAt {
    word: u32,
}

// Where K and V of a position of a page begin.
fn kv_at(page: u32, kv: u32, position: u32) -> KvAt {
    return KvAt(((page * P.n_kv + kv) * P.page_len + position) * (P.hdp / 8u));
}
