//! The numbers that define a forward pass. One forward pass serves every architecture; what differs
//! is here as values.

use super::rope::Rope;
use crate::gguf::Gguf;
use crate::{Error, Result};

/// Activation of the gated FFN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// `x / (1 + e^-x)`
    Silu,
    /// Gaussian error linear unit, tanh form.
    Gelu,
}

/// Whether q, k and v projections carry a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// The architecture has none; one in the file is an error.
    None,
    /// Used where the file has it.
    Optional,
    /// Must be there.
    Required,
}

/// What differs between the layers of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerHyper {
    /// Positions a query sees, its own included; `None`: all.
    pub window: Option<u32>,
    /// Index into [`Hyper::ropes`].
    pub rope: usize,
}

/// Shapes and constants of a model. Lengths are in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Hyper {
    /// `general.architecture`
    pub arch: &'static str,
    /// Length of the residual stream.
    pub n_embd: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key and value heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Length of one head.
    pub head_dim: u32,
    /// Length of the FFN's inner activation.
    pub n_ff: u32,
    /// Rows of `token_embd.weight`.
    pub n_vocab: u32,
    /// Context the model was trained for (`0` in the file counts as unknown: 2048).
    pub context: u32,
    /// RMS norm epsilon.
    pub eps: f32,
    /// Rotary embeddings; most models have one, Gemma 3 two.
    pub ropes: Vec<Rope>,
    /// In the file, rotary pairs are neighbours (2i, 2i+1) rather than halves (i, i + rot/2).
    pub adjacent_pairs: bool,
    /// Per layer.
    pub layers: Vec<LayerHyper>,
    /// Bias of q, k, v.
    pub qkv_bias: Bias,
    /// RMS norm of every q and k head before the rotation.
    pub qk_norm: bool,
    /// RMS norms after attention and after the FFN, before the residual add.
    pub post_norms: bool,
    /// FFN activation.
    pub act: Act,
    /// Factor on embedding rows.
    pub embd_scale: f32,
    /// Factor on attention scores.
    pub attn_scale: f32,
    /// `c` of `c tanh(logit / c)`, 0 for none.
    pub softcap: f32,
}

impl Hyper {
    /// What all supported architectures share, read from `<arch>.*` keys and checked.
    pub fn common(g: &Gguf, arch: &'static str) -> Result<Hyper> {
        let r = Reader { g, arch };
        let n_embd = r.need("embedding_length", 1, 1 << 20)?;
        let n_layer = r.need("block_count", 1, 4096)?;
        let n_head = r.need("attention.head_count", 1, 1 << 14)?;
        let n_head_kv = r.get("attention.head_count_kv", n_head, 1, n_head)?;
        if n_head % n_head_kv != 0 {
            return Err(r.bad(
                "attention.head_count_kv",
                n_head_kv,
                "must divide attention.head_count",
            ));
        }
        let usual = n_embd / n_head;
        if g.get(&r.key("attention.key_length")).is_none() && !(1..=512).contains(&usual) {
            let why = "gives, with embedding_length, heads of less than 1 or more than 512 numbers";
            return Err(r.bad("attention.head_count", n_head, why));
        }
        let head_dim = r.get("attention.key_length", usual, 1, 512)?;
        let value_dim = r.get("attention.value_length", head_dim, 1, 512)?;
        if value_dim != head_dim {
            return Err(r.bad(
                "attention.value_length",
                value_dim,
                "must equal attention.key_length",
            ));
        }
        let n_ff = r.need("feed_forward_length", 1, 1 << 24)?;
        if let Some(n) = g.u32(&r.key("expert_count"))?.filter(|n| *n > 0) {
            return Err(r.bad(
                "expert_count",
                n,
                "mixtures of experts are not supported yet",
            ));
        }
        let rot = r.get("rope.dimension_count", head_dim, 2, head_dim)?;
        if rot % 2 != 0 {
            return Err(r.bad("rope.dimension_count", rot, "must be even"));
        }
        let eps = r.number(
            g.need_f32(&r.key("attention.layer_norm_rms_epsilon"))?,
            "attention.layer_norm_rms_epsilon",
        )?;
        let context = match r.get("context_length", 0, 0, u32::MAX)? {
            0 => 2048,
            n => n,
        };
        let n_vocab = g
            .find("token_embd.weight")
            .and_then(|t| t.shape.get(1))
            .copied()
            .unwrap_or(0);
        Ok(Hyper {
            arch,
            n_embd,
            n_head,
            n_head_kv,
            head_dim,
            n_ff,
            n_vocab: u32::try_from(n_vocab).unwrap_or(u32::MAX),
            context,
            eps,
            ropes: vec![Rope::from_gguf(g, arch, rot)?],
            adjacent_pairs: false,
            layers: vec![
                LayerHyper {
                    window: None,
                    rope: 0
                };
                n_layer as usize
            ],
            qkv_bias: Bias::None,
            qk_norm: false,
            post_norms: false,
            act: Act::Silu,
            embd_scale: 1.0,
            attn_scale: 1.0 / (head_dim as f32).sqrt(),
            softcap: 0.0,
        })
    }

    /// Length of all query heads together.
    pub fn q_dim(&self) -> u32 {
        self.n_head * self.head_dim
    }

    /// Length of all key (or value) heads together.
    pub fn kv_dim(&self) -> u32 {
        self.n_head_kv * self.head_dim
    }
}

/// Reads and range-checks `<arch>.<name>` keys.
pub(super) struct Reader<'a> {
    pub g: &'a Gguf,
    pub arch: &'static str,
}

impl Reader<'_> {
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    pub fn bad(&self, name: &str, value: impl ToString, why: &'static str) -> Error {
        Error::KeyValue {
            path: self.g.path().to_path_buf(),
            key: self.key(name),
            value: value.to_string(),
            why,
        }
    }

    /// A required whole number in a range.
    pub fn need(&self, name: &str, min: u32, max: u32) -> Result<u32> {
        self.range(name, self.g.need_u32(&self.key(name))?, min, max)
    }

    /// An optional whole number in a range.
    pub fn get(&self, name: &str, default: u32, min: u32, max: u32) -> Result<u32> {
        let v = self.g.u32(&self.key(name))?.unwrap_or(default);
        self.range(name, v, min, max)
    }

    fn range(&self, name: &str, v: u32, min: u32, max: u32) -> Result<u32> {
        if v < min || v > max {
            return Err(Error::KeyRange {
                path: self.g.path().to_path_buf(),
                key: self.key(name),
                value: v,
                min,
                max,
            });
        }
        Ok(v)
    }

    /// A positive, finite number.
    pub fn number(&self, v: f32, name: &str) -> Result<f32> {
        if v.is_finite() && v > 0.0 {
            Ok(v)
        } else {
            Err(self.bad(name, v, "must be a positive number"))
        }
    }
}
