// Not a kernel: what a planted fault (`gpu/fault.rs`) does to the result of another one. It turns the exponent
// of the first word, so that no number stays what it was.
@group(0) @binding(0) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(1)
fn main() {
    out[0] = out[0] ^ 0x3f800000u;
}
