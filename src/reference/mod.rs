//! CPU twins: what each kernel computes, written from its formula with f64 sums, on the same
//! buffers, parameters and grid. Slow, plain and independent of how the shaders go about it.

mod attention;
mod binds;
pub mod compare;
mod matrix;
mod norm;
mod peak;
mod rope;
mod runner;
mod sampling;

pub use binds::{Binds, Data, Rows};
pub use runner::Runner;

/// A twin: the bytes of the kernel's parameter block, its grid (how many columns, heads or chunks
/// there are), and its buffers by the binding names of the kernel table.
pub type Twin = fn(params: &[u8], grid: [u32; 3], binds: &mut Binds);

/// One twin per kernel of [`crate::kernel::ALL`].
static TWINS: &[(&str, Twin)] = &[
    ("get_rows", matrix::get_rows),
    ("matvec", matrix::matvec),
    ("matvec_rows", matrix::matvec),
    ("matvec2", matrix::matvec2),
    ("matvec_rows2", matrix::matvec2),
    ("matmul", matrix::matmul),
    ("rms_norm", norm::rms_norm),
    ("post_norm", norm::post_norm),
    ("glu", norm::glu),
    ("take_row", norm::take_row),
    ("rope_kv", rope::rope_kv),
    ("attention", attention::attention),
    ("attention_rows", attention::attention),
    ("attn_combine", attention::attn_combine),
    ("penalize", sampling::penalize),
    ("logits_part", sampling::logits_part),
    ("sample", sampling::sample),
    ("peak_fma", peak::peak_fma),
];

/// The twin of a kernel by name; every kernel has one.
pub fn twin(kernel: &str) -> Twin {
    TWINS
        .iter()
        .find(|(n, _)| *n == kernel)
        .unwrap_or_else(|| panic!("no twin of {kernel}"))
        .1
}

/// A parameter block from its bytes.
fn params<P: bytemuck::Pod>(bytes: &[u8]) -> P {
    bytemuck::pod_read_unaligned(bytes)
}

/// Column `c` of the batch in `cols`: (token, position, slot, flags). Column 0 comes after the header.
fn column(cols: &[u32], c: usize) -> [u32; 4] {
    let at = 4 * (c + 1);
    [cols[at], cols[at + 1], cols[at + 2], cols[at + 3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_a_twin() {
        for k in crate::kernel::ALL {
            twin(k.name);
        }
        assert_eq!(TWINS.len(), crate::kernel::ALL.len());
    }
}
