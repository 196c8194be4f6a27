//! Every tensor of a shape: name, sizes, type, and what its random numbers are to look like.

use super::mix::{Mix, Place};
use super::shapes::{Rope, Shape};
use crate::gguf::{GgmlType, NewTensor, ggml_type};

/// What a matrix is for, as far as its type depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Makes the logits.
    Output,
    /// attn_v
    V,
    /// attn_output
    AttnOutput,
    /// ffn_down
    Down,
    /// Any other.
    Other,
}

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    /// Around 0, so that a product with a vector of deviation 1 has deviation 1.
    Weights,
    /// Vector: around a value with a deviation.
    Around(f32, f32),
    /// Vector: these.
    These(Vec<f32>),
}

/// A tensor before it has data.
pub(super) struct Planned {
    pub(super) tensor: NewTensor,
    pub(super) numbers: Numbers,
}

struct List<'a> {
    shape: &'a Shape,
    mix: &'a Mix,
    all: Vec<Planned>,
}

/// All tensors, in the order of a file.
pub(super) fn all(shape: &Shape, mix: &Mix) -> Vec<Planned> {
    let mut list = List {
        shape,
        mix,
        all: Vec::new(),
    };
    let s = shape;
    if let Rope::Llama3(factor) = s.rope {
        let factors = llama3_factors(s.head_dim, s.rope_base, factor);
        list.vector("rope_freqs", factors.len() as u32, Numbers::These(factors));
    }
    let (q, kv) = (s.n_head * s.head_dim, s.n_head_kv * s.head_dim);
    let role = if s.tied { Role::Output } else { Role::Other };
    list.matrix("token_embd", 0, role, s.n_embd, s.n_vocab);
    let norm = Numbers::Around(1.0, 0.1);
    for layer in 0..s.n_layer {
        let name = |part: &str| format!("blk.{layer}.{part}");
        list.vector(&name("attn_norm"), s.n_embd, norm.clone());
        list.matrix(&name("attn_q"), layer, Role::Other, s.n_embd, q);
        list.matrix(&name("attn_k"), layer, Role::Other, s.n_embd, kv);
        list.matrix(&name("attn_v"), layer, Role::V, s.n_embd, kv);
        if s.qkv_bias {
            for (part, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
                list.bias(&name(part), n);
            }
        }
        if s.qk_norm {
            list.vector(&name("attn_q_norm"), s.head_dim, norm.clone());
            list.vector(&name("attn_k_norm"), s.head_dim, norm.clone());
        }
        list.matrix(&name("attn_output"), layer, Role::AttnOutput, q, s.n_embd);
        if s.post_norms {
            list.vector(&name("post_attention_norm"), s.n_embd, norm.clone());
        }
        list.vector(&name("ffn_norm"), s.n_embd, norm.clone());
        list.matrix(&name("ffn_gate"), layer, Role::Other, s.n_embd, s.n_ff);
        list.matrix(&name("ffn_up"), layer, Role::Other, s.n_embd, s.n_ff);
        list.matrix(&name("ffn_down"), layer, Role::Down, s.n_ff, s.n_embd);
        if s.post_norms {
            list.vector(&name("post_ffw_norm"), s.n_embd, norm.clone());
        }
    }
    list.vector("output_norm", s.n_embd, norm);
    if !s.tied {
        list.matrix("output", 0, Role::Output, s.n_embd, s.n_vocab);
    }
    list.all
}

impl List<'_> {
    fn matrix(&mut self, name: &str, layer: u32, role: Role, k: u32, rows: u32) {
        let place = Place {
            role,
            layer,
            layers: self.shape.n_layer,
            gqa: self.shape.n_head / self.shape.n_head_kv,
            k: k.into(),
        };
        let shape = vec![k.into(), rows.into()];
        let ty = self.mix.ty(place);
        self.push(format!("{name}.weight"), shape, ty, Numbers::Weights);
    }

    fn vector(&mut self, name: &str, n: u32, numbers: Numbers) {
        self.push(format!("{name}.weight"), vec![n.into()], f32(), numbers);
    }

    fn bias(&mut self, name: &str, n: u32) {
        let numbers = Numbers::Around(0.0, 0.1);
        self.push(format!("{name}.bias"), vec![n.into()], f32(), numbers);
    }

    fn push(&mut self, name: String, shape: Vec<u64>, ty: &'static GgmlType, numbers: Numbers) {
        let tensor = NewTensor { name, shape, ty };
        self.all.push(Planned { tensor, numbers });
    }
}

fn f32() -> &'static GgmlType {
    ggml_type::by_id(0).expect("F32 is a type")
}

/// Divisors of the rotary angles of Llama 3.1 and later: waves that fit into a quarter of the first
/// context (8192) stay, those longer than it are stretched by `factor`, between the two it goes over
/// smoothly (source: the models' `rope_scaling` with `rope_type: llama3`).
fn llama3_factors(head_dim: u32, base: f32, factor: f32) -> Vec<f32> {
    let (first_context, low, high) = (8192f64, 1f64, 4f64);
    let factor = f64::from(factor);
    (0..head_dim / 2)
        .map(|i| {
            let angle = f64::from(base).powf(-f64::from(2 * i) / f64::from(head_dim));
            let waves = first_context * angle / std::f64::consts::TAU;
            let share = ((waves - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / (share + (1.0 - share) / factor)) as f32
        })
        .collect()
}
