//! Weight types the engine can run: how each is decoded on the CPU, and how a row of it is repacked
//! into the words its shader reads. One file per type, one line of the table `ALL` per file.
//!
//! A row on the GPU is a record of 16-byte words (`vec4<u32>`) in sections, each padded to a whole
//! word: first the packed quants, then whatever scales they. Each file says which sections it has,
//! with `nb` = blocks of 32 weights and `ng` = groups of 256 weights in a row, rounded up. `f16`
//! numbers in a record are scaled by a power of two, see `pack.rs`.

mod bf16;
mod f16;
mod f32;
mod pack;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

use crate::gguf::{GgmlType, ggml_type};

/// One weight type.
pub struct QuantType {
    /// Its row in ggml's table.
    pub ggml: &'static GgmlType,
    /// Name as ggml spells it, e.g. `Q4_K`.
    pub name: &'static str,
    /// Weights per block in the file.
    pub block: usize,
    /// Bytes per block in the file.
    pub bytes: usize,
    /// Whole blocks to their exact f32 values, in ggml's order of operations.
    pub decode: fn(&[u8], &mut [f32]),
    /// 16-byte words of one repacked row of `k` weights.
    pub row_vec4s: fn(k: usize) -> usize,
    /// Repacks one row: the file's blocks of `k` weights into `4 * row_vec4s(k)` words. A `k` that
    /// is not a multiple of 32 is filled up with zero weights. Returns what the row's results must
    /// be multiplied by; NaN if a number in the row is NaN or infinite.
    pub repack: fn(row: &[u8], k: usize, out: &mut [u32]) -> f32,
    /// Turns a block of random bytes into one whose weights lie around 0 with this deviation, for
    /// models that exist by shape only.
    pub random: fn(block: &mut [u8], deviation: f32),
    /// Byte positions in a block of the file of its f16 numbers.
    pub halves: &'static [usize],
    /// Shader file that fills the slot `quant`, below `shaders/`.
    pub shader: &'static str,
}

impl QuantType {
    /// Bytes of a row of `k` weights in the file; `k` is a multiple of `block`.
    pub fn row_bytes(&self, k: usize) -> usize {
        k / self.block * self.bytes
    }
}

/// Table row of the type with this number, whose code is in this module and in the shader file of
/// the same name.
macro_rules! row {
    ($id:literal, $module:ident) => {{
        let ggml = ggml_type::by_id($id).expect("a type of ggml");
        QuantType {
            ggml,
            name: ggml.name,
            block: ggml.block as usize,
            bytes: ggml.bytes as usize,
            decode: $module::decode,
            row_vec4s: |k| $module::sections(k).iter().sum(),
            repack: $module::repack,
            random: $module::random,
            halves: $module::HALVES,
            shader: concat!("quant/", stringify!($module), ".wgsl"),
        }
    }};
}

/// All weight types.
pub static ALL: &[QuantType] = &[
    row!(0, f32),
    row!(1, f16),
    row!(30, bf16),
    row!(2, q4_0),
    row!(3, q4_1),
    row!(6, q5_0),
    row!(7, q5_1),
    row!(8, q8_0),
    row!(10, q2_k),
    row!(11, q3_k),
    row!(12, q4_k),
    row!(13, q5_k),
    row!(14, q6_k),
];

/// The type with this ggml number, if the engine can run it.
pub fn by_id(id: u32) -> Option<&'static QuantType> {
    ALL.iter().find(|t| t.ggml.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_blocks_lie_around_0_with_the_deviation_asked_for() {
        let mut state = 1u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        for t in ALL {
            for deviation in [1.0f32, 0.02, 0.006] {
                let blocks = 1 << 16 >> t.block.ilog2();
                let mut bytes: Vec<u8> = (0..blocks * t.bytes).map(|_| byte()).collect();
                for b in bytes.chunks_exact_mut(t.bytes) {
                    (t.random)(b, deviation);
                }
                let mut w = vec![0f32; blocks * t.block];
                (t.decode)(&bytes, &mut w);
                let n = w.len() as f64;
                let mean = w.iter().map(|&w| f64::from(w)).sum::<f64>() / n;
                let square = w.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>() / n;
                let found = square.sqrt() / f64::from(deviation);
                assert!((0.9..1.1).contains(&found), "{}: deviation {found}", t.name);
                assert!(
                    mean.abs() < 0.05 * f64::from(deviation),
                    "{}: mean {mean} of {deviation}",
                    t.name
                );
            }
        }
    }
}
