//! Which weight type each tensor gets in a file of a named mix: the rules of llama.cpp's `quantize`
//! (source: `llama_tensor_get_type_impl` and `tensor_type_fallback` of its `llama-quant.cpp`; dense
//! models, no importance matrix).

use super::tensors::Role;
use crate::gguf::{GgmlType, ggml_type};

const F32: u32 = 0;
const F16: u32 = 1;
const Q4_0: u32 = 2;
const Q4_1: u32 = 3;
const Q5_0: u32 = 6;
const Q5_1: u32 = 7;
const Q8_0: u32 = 8;
const Q2_K: u32 = 10;
const Q3_K: u32 = 11;
const Q4_K: u32 = 12;
const Q5_K: u32 = 13;
const Q6_K: u32 = 14;
const BF16: u32 = 30;

/// Types of 256 weights a block, and what stands for them where a row is no multiple of 256.
const FALLBACK: [(u32, u32); 5] = [
    (Q2_K, Q4_0),
    (Q3_K, Q4_0),
    (Q4_K, Q5_0),
    (Q5_K, Q5_1),
    (Q6_K, Q8_0),
];

/// Where in a model a tensor is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) role: Role,
    /// Layer, and how many there are.
    pub(super) layer: u32,
    pub(super) layers: u32,
    /// Query heads per KV head.
    pub(super) gqa: u32,
    /// Weights per row.
    pub(super) k: u64,
}

impl Place {
    /// The first and the last eighth of the layers, and every third one between.
    fn more_bits(self) -> bool {
        let (i, eighth) = (self.layer, self.layers / 8);
        i < eighth || i >= 7 * self.layers / 8 || (i - eighth) % 3 == 2
    }
}

/// One mix of types.
pub struct Mix {
    /// What the user calls it, `q4_k_m`.
    pub name: &'static str,
    /// `general.file_type`
    pub file_type: u32,
    /// Type of most tensors.
    base: u32,
    /// Other types inside the layers.
    other: fn(Place) -> Option<u32>,
}

const fn mix(
    name: &'static str,
    file_type: u32,
    base: u32,
    other: fn(Place) -> Option<u32>,
) -> Mix {
    Mix {
        name,
        file_type,
        base,
        other,
    }
}

fn none(_: Place) -> Option<u32> {
    None
}

fn medium(p: Place) -> Option<u32> {
    (matches!(p.role, Role::V | Role::Down) && p.more_bits()).then_some(Q6_K)
}

/// All mixes.
pub(super) static ALL: &[Mix] = &[
    mix("f32", 0, F32, none),
    mix("f16", 1, F16, none),
    mix("bf16", 32, BF16, none),
    mix("q8_0", 7, Q8_0, none),
    mix("q4_0", 2, Q4_0, none),
    mix("q4_1", 3, Q4_1, none),
    mix("q5_0", 8, Q5_0, none),
    mix("q5_1", 9, Q5_1, none),
    mix("q2_k", 10, Q2_K, |p| match p.role {
        Role::V if p.gqa >= 4 => Some(Q4_K),
        Role::V | Role::Down | Role::AttnOutput => Some(Q3_K),
        _ => None,
    }),
    mix("q3_k_s", 11, Q3_K, none),
    mix("q3_k_m", 12, Q3_K, |p| match p.role {
        Role::V if p.layer < 2 => Some(Q5_K),
        Role::Down if p.layer < p.layers / 16 => Some(Q5_K),
        Role::V | Role::Down | Role::AttnOutput => Some(Q4_K),
        _ => None,
    }),
    mix("q3_k_l", 13, Q3_K, |p| {
        matches!(p.role, Role::V | Role::Down | Role::AttnOutput).then_some(Q5_K)
    }),
    mix("q4_k_s", 14, Q4_K, |p| match p.role {
        Role::V if p.layer < 4 => Some(Q5_K),
        Role::Down if p.layer < p.layers / 8 => Some(Q5_K),
        _ => None,
    }),
    mix("q4_k_m", 15, Q4_K, medium),
    mix("q5_k_s", 16, Q5_K, none),
    mix("q5_k_m", 17, Q5_K, medium),
    mix("q6_k", 18, Q6_K, none),
];

impl Mix {
    /// The type of a matrix. Vectors are F32 in every mix.
    pub(super) fn ty(&self, p: Place) -> &'static GgmlType {
        let row = |id| ggml_type::by_id(id).expect("a type of ggml");
        let base = row(self.base);
        let quantised = base.block > 1;
        let mut ty = match p.role {
            _ if !quantised => base,
            // The matrix that makes the logits, which is the embedding where there is no other.
            Role::Output if self.base == Q8_0 || !p.k.is_multiple_of(base.block) => row(Q8_0),
            Role::Output => row(Q6_K),
            _ => (self.other)(p).map_or(base, row),
        };
        if !p.k.is_multiple_of(ty.block)
            && let Some((_, instead)) = FALLBACK.iter().find(|(id, _)| *id == ty.id)
        {
            ty = row(*instead);
        }
        ty
    }
}
