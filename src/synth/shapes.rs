//! The table of shapes (source: `config.json` of each model's own repository, and for the ids of the
//! special tokens its `tokenizer_config.json`; values of Gemma 3 4B are those of its text part).

use super::words::{self, Vocab};

/// Rotary angles beside the plain ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rope {
    /// Nothing.
    Plain,
    /// All angles divided by a factor (Gemma 3, global layers).
    Linear(f32),
    /// Llama 3.1 and later: slow angles divided by a factor, given in the tensor `rope_freqs`.
    Llama3(f32),
}

/// Dimensions of one model. Lengths are in elements.
#[derive(Debug)]
pub struct Shape {
    /// What the user calls it.
    pub name: &'static str,
    /// `general.architecture`
    pub arch: &'static str,
    /// Layers.
    pub n_layer: u32,
    /// Length of the residual stream.
    pub n_embd: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key and value heads.
    pub n_head_kv: u32,
    /// Length of one head.
    pub head_dim: u32,
    /// Inner length of the FFN.
    pub n_ff: u32,
    /// Tokens.
    pub n_vocab: u32,
    /// The output projection is the embedding.
    pub tied: bool,
    /// Positions the model was trained for.
    pub context: u32,
    /// RMS norm epsilon.
    pub eps: f32,
    /// Rotary base.
    pub rope_base: f32,
    /// Rotary scaling.
    pub rope: Rope,
    /// Positions of the sliding window, where layers have one.
    pub window: Option<u32>,
    /// q, k and v have a bias.
    pub qkv_bias: bool,
    /// q and k heads have a norm.
    pub qk_norm: bool,
    /// There are norms behind attention and FFN.
    pub post_norms: bool,
    pub(super) vocab: Vocab,
}

/// What most have in common.
const LLAMA: Shape = Shape {
    name: "",
    arch: "llama",
    n_layer: 0,
    n_embd: 0,
    n_head: 0,
    n_head_kv: 0,
    head_dim: 128,
    n_ff: 0,
    n_vocab: 128256,
    tied: true,
    context: 131072,
    eps: 1e-5,
    rope_base: 500_000.0,
    rope: Rope::Llama3(32.0),
    window: None,
    qkv_bias: false,
    qk_norm: false,
    post_norms: false,
    vocab: words::LLAMA3,
};

const SMOLLM2: Shape = Shape {
    head_dim: 64,
    n_vocab: 49152,
    context: 8192,
    rope_base: 100_000.0,
    rope: Rope::Plain,
    vocab: words::SMOLLM,
    ..LLAMA
};

/// No model of anybody's: two layers that a device has done with at once.
pub(super) const PROBE: Shape = Shape {
    name: "probe",
    n_layer: 2,
    n_embd: 256,
    n_head: 4,
    n_head_kv: 2,
    n_ff: 512,
    n_vocab: 2048,
    ..SMOLLM2
};

const QWEN2: Shape = Shape {
    arch: "qwen2",
    n_vocab: 151936,
    context: 32768,
    eps: 1e-6,
    rope_base: 1_000_000.0,
    rope: Rope::Plain,
    qkv_bias: true,
    vocab: words::QWEN,
    ..LLAMA
};

const QWEN3: Shape = Shape {
    arch: "qwen3",
    context: 40960,
    n_head_kv: 8,
    qkv_bias: false,
    qk_norm: true,
    ..QWEN2
};

const GEMMA3: Shape = Shape {
    arch: "gemma3",
    head_dim: 256,
    n_vocab: 262144,
    context: 32768,
    eps: 1e-6,
    rope_base: 1_000_000.0,
    rope: Rope::Plain,
    window: Some(512),
    qk_norm: true,
    post_norms: true,
    vocab: words::GEMMA,
    ..LLAMA
};

/// Layers, n_embd, heads, KV heads and n_ff of a family's member.
const fn of(family: Shape, name: &'static str, n: [u32; 5]) -> Shape {
    Shape {
        name,
        n_layer: n[0],
        n_embd: n[1],
        n_head: n[2],
        n_head_kv: n[3],
        n_ff: n[4],
        ..family
    }
}

/// All shapes.
pub(super) static ALL: &[Shape] = &[
    of(SMOLLM2, "smollm2-135m", [30, 576, 9, 3, 1536]),
    of(SMOLLM2, "smollm2-360m", [32, 960, 15, 5, 2560]),
    Shape {
        rope_base: 130_000.0,
        ..of(SMOLLM2, "smollm2-1.7b", [24, 2048, 32, 32, 8192])
    },
    Shape {
        head_dim: 64,
        ..of(LLAMA, "llama-3.2-1b", [16, 2048, 32, 8, 8192])
    },
    of(LLAMA, "llama-3.2-3b", [28, 3072, 24, 8, 8192]),
    Shape {
        tied: false,
        rope: Rope::Llama3(8.0),
        ..of(LLAMA, "llama-3.1-8b", [32, 4096, 32, 8, 14336])
    },
    // v0.3
    Shape {
        n_vocab: 32768,
        tied: false,
        context: 32768,
        rope_base: 1_000_000.0,
        rope: Rope::Plain,
        vocab: words::MISTRAL,
        ..of(LLAMA, "mistral-7b", [32, 4096, 32, 8, 14336])
    },
    Shape {
        head_dim: 64,
        ..of(QWEN2, "qwen2.5-0.5b", [24, 896, 14, 2, 4864])
    },
    of(QWEN2, "qwen2.5-1.5b", [28, 1536, 12, 2, 8960]),
    of(QWEN2, "qwen2.5-3b", [36, 2048, 16, 2, 11008]),
    Shape {
        n_vocab: 152064,
        tied: false,
        ..of(QWEN2, "qwen2.5-7b", [28, 3584, 28, 4, 18944])
    },
    of(QWEN3, "qwen3-0.6b", [28, 1024, 16, 8, 3072]),
    of(QWEN3, "qwen3-1.7b", [28, 2048, 16, 8, 6144]),
    of(QWEN3, "qwen3-4b", [36, 2560, 32, 8, 9728]),
    Shape {
        tied: false,
        ..of(QWEN3, "qwen3-8b", [36, 4096, 32, 8, 12288])
    },
    of(GEMMA3, "gemma-3-270m", [18, 640, 4, 1, 2048]),
    of(GEMMA3, "gemma-3-1b", [26, 1152, 4, 1, 6912]),
    Shape {
        n_vocab: 262208,
        context: 131072,
        rope: Rope::Linear(8.0),
        window: Some(1024),
        ..of(GEMMA3, "gemma-3-4b", [34, 2560, 8, 4, 10240])
    },
];
