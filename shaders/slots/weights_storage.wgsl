// slot weights = storage: a repacked matrix as plain 16-byte words.
@group(0) @binding(1) var<storage, read> w: array<vec4<u32>>;

fn wload(i: u32) -> vec4<u32> {
    return w[i];
}
