// Shared by attention and attention_rows: parameters, bindings but q and the cache, words of 8 f16.
struct Params {
    n_head: u32,
    n_kv: u32,
    hdp: u32,
    q_stride: u32, // vec4 from column to column of q
    heads: u32,    // query heads per workgroup, 1..=4
    blocks: u32,   // workgroups per KV head
    scale: f32,
    window: u32,   // positions seen, own one included; 0: all
    chunk: u32,    // positions per workgroup, a multiple of 256
    n_chunks: u32, // chunks that `part` has room for
    page_len: u32,
    pages_per_slot: u32,
    col0: u32,     // first column of this dispatch
    layer_shift: u32, // slot kv = texture: log2 of the pages of a layer
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(4) var<storage, read> cols: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> pages: array<u32>;
@group(0) @binding(6) var<storage, read_write> part: array<vec4<f32>>;

fn lo(v: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}

fn hi(v: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w));
}
