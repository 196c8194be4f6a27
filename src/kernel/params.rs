//! Parameter blocks, one per kernel: flat `u32`/`f32` structs that equal `struct Params` in the
//! shader field by field (a test compares both). What each field means stands in the shader.

use bytemuck::{Pod, Zeroable};

/// A parameter block that knows its fields' names and WGSL types.
pub trait Params: Pod {
    /// (name, WGSL type) in order; every field takes 4 bytes.
    const FIELDS: &'static [(&'static str, &'static str)];
}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ident),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: $ty),* }

        impl Params for $name {
            const FIELDS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($field), stringify!($ty))),*];
        }
    )*};
}

params! {
    /// `get_rows.wgsl`
    GetRows { nb: u32, row_vec4s: u32, mult: u32, rows: u32, row0: u32, tex_shift: u32, out_stride: u32, scale: f32, parts: u32 }
    /// `matvec.wgsl`, `matvec_rows.wgsl`, both with a 2 behind, `matmul.wgsl` (through `slots/matvec_io.wgsl`)
    MatVec {
        nb: u32, row_vec4s: u32, mult: u32, rows: u32, out_row: u32, tex_shift: u32,
        x_stride: u32, out_stride: u32, n_cols: u32, mode: u32, softcap: f32,
        parts: u32, part_rows: u32, norm_n: u32, eps: f32,
        row_vec4s2: u32, mult2: u32, rows2: u32, out_row2: u32, tex_shift2: u32,
    }
    /// `rms_norm.wgsl`, `post_norm.wgsl`
    Norm { n: u32, stride: u32, eps: f32 }
    /// `glu.wgsl`
    Glu { n: u32, up: u32, x_stride: u32, out_stride: u32, mode: u32 }
    /// `take_row.wgsl`
    TakeRow { n: u32, stride: u32 }
    /// `rope_kv.wgsl`
    RopeKv {
        n_head: u32, n_kv: u32, hd: u32, hdp: u32, rot: u32, x_stride: u32, q_stride: u32,
        page_len: u32, pages_per_slot: u32, has_bias: u32, has_norm: u32, eps: f32,
        layer_shift: u32,
    }
    /// `attention.wgsl`, `attention_rows.wgsl`
    Attention {
        n_head: u32, n_kv: u32, hdp: u32, q_stride: u32, heads: u32, blocks: u32, scale: f32, window: u32,
        chunk: u32, n_chunks: u32, page_len: u32, pages_per_slot: u32, col0: u32,
        layer_shift: u32,
    }
    /// `attn_combine.wgsl`
    AttnCombine { n_head: u32, hd: u32, hdp: u32, window: u32, chunk: u32, n_chunks: u32, out_stride: u32 }
    /// `penalize.wgsl`
    Penalize { n_vocab: u32, stride: u32, hist_stride: u32 }
    /// `logits_part.wgsl`
    LogitsPart { n_vocab: u32, stride: u32, n_parts: u32, span: u32 }
    /// `peak_fma.wgsl`
    PeakFma { n: u32, rounds: u32 }
    /// `sample.wgsl`
    Sample { n_vocab: u32, stride: u32, n_parts: u32, hist_stride: u32, ring_len: u32 }
}

params! {
    /// What the sampling kernels know of one sequence slot, 16 words in the `slots` buffer.
    Slot {
        temp: f32, top_k: u32, top_p: f32, min_p: f32, seed_lo: u32, seed_hi: u32,
        repeat_penalty: f32, repeat_last_n: u32, count: u32, hist_len: u32,
        pad0: u32, pad1: u32, pad2: u32, pad3: u32, pad4: u32, pad5: u32,
    }
}

/// Epilogue of a matrix product (`mode` of [`MatVec`] and [`Glu`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// `out = v`
    Store = 0,
    /// `out += v` (residual)
    Add = 1,
    /// `out[i] = silu(row 2i) * row 2i+1`
    Silu = 2,
    /// `out[i] = gelu(row 2i) * row 2i+1`, tanh form
    Gelu = 3,
}
