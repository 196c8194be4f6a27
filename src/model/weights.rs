//! Finds every tensor of a model, checks its shape and type, and stacks what can share a dispatch.
//! A tensor in the file that nothing uses is an error: a model is never run with parts left out.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use super::hyper::{Bias, Hyper};
use super::matrix::{self, Matrix, Order, SharedMatrix, Unpair};
use crate::gguf::Gguf;
use crate::{Error, Result};

/// The weights of one layer. Vectors are small and held as f32.
pub struct Layer {
    /// `blk.N.attn_norm`
    pub attn_norm: Vec<f32>,
    /// q, k and v: one matrix if they are of one type, else several; (first output row, matrix).
    pub qkv: Vec<(u32, SharedMatrix)>,
    /// Bias of q, k, v (in that order), if the file has one.
    pub qkv_bias: Option<Vec<f32>>,
    /// Norm weights of q heads, then of k heads.
    pub qk_norm: Option<Vec<f32>>,
    /// `blk.N.attn_output`
    pub attn_output: SharedMatrix,
    /// `blk.N.post_attention_norm`
    pub post_attention_norm: Option<Vec<f32>>,
    /// `blk.N.ffn_norm`
    pub ffn_norm: Vec<f32>,
    /// Gate and up, interleaved if they are of one type, else apart.
    pub ffn_gate_up: Vec<SharedMatrix>,
    /// `blk.N.ffn_down`
    pub ffn_down: SharedMatrix,
    /// `blk.N.post_ffw_norm`
    pub post_ffw_norm: Option<Vec<f32>>,
}

/// All weights of a model.
pub struct Weights {
    /// `token_embd`
    pub token_embd: SharedMatrix,
    /// `blk.*`
    pub layers: Vec<Layer>,
    /// `output_norm`
    pub output_norm: Vec<f32>,
    /// `output`, or the embedding where the file ties them.
    pub output: SharedMatrix,
}

struct Finder<'a> {
    g: &'a Gguf,
    h: &'a Hyper,
    used: RefCell<HashSet<String>>,
}

impl Weights {
    /// Finds them all.
    pub fn find(g: &Gguf, h: &Hyper) -> Result<Weights> {
        let f = Finder {
            g,
            h,
            used: RefCell::default(),
        };
        if h.ropes[0].factors.is_some() {
            // Angles, not weights: read with the hyperparameters.
            f.used.borrow_mut().insert("rope_freqs.weight".into());
        }
        let token_embd = Arc::new(f.matrix("token_embd.weight", h.n_embd, h.n_vocab, false)?);
        let output = if g.find("output.weight").is_some() {
            Arc::new(f.matrix("output.weight", h.n_embd, h.n_vocab, false)?)
        } else {
            token_embd.clone()
        };
        let output_norm = f.vector("output_norm.weight", h.n_embd)?;
        let layers = (0..h.layers.len())
            .map(|i| f.layer(i))
            .collect::<Result<Vec<_>>>()?;
        let used = f.used.into_inner();
        if let Some(t) = g.tensors().iter().find(|t| !used.contains(&t.name)) {
            return Err(Error::TensorUnused {
                path: g.path().to_path_buf(),
                tensor: t.name.clone(),
                arch: h.arch,
                layers: h.layers.len(),
            });
        }
        Ok(Weights {
            token_embd,
            layers,
            output_norm,
            output,
        })
    }

    /// Every distinct matrix, in file-to-output order.
    pub fn matrices(&self) -> Vec<SharedMatrix> {
        let mut all = vec![self.token_embd.clone()];
        for l in &self.layers {
            all.extend(l.qkv.iter().map(|(_, m)| m.clone()));
            all.push(l.attn_output.clone());
            all.extend(l.ffn_gate_up.iter().cloned());
            all.push(l.ffn_down.clone());
        }
        if !Arc::ptr_eq(&self.output, &self.token_embd) {
            all.push(self.output.clone());
        }
        all
    }
}

impl Finder<'_> {
    fn matrix(&self, name: &str, k: u32, rows: u32, rotary: bool) -> Result<Matrix> {
        self.used.borrow_mut().insert(name.to_string());
        let unpair = (rotary && self.h.adjacent_pairs).then(|| self.unpair());
        Matrix::find(self.g, name, k, rows, unpair)
    }

    fn unpair(&self) -> Unpair {
        Unpair {
            head_dim: self.h.head_dim as usize,
            rot: self.h.ropes[0].rot as usize,
        }
    }

    fn vector(&self, name: &str, n: u32) -> Result<Vec<f32>> {
        self.used.borrow_mut().insert(name.to_string());
        matrix::vector(self.g, name, n)
    }

    fn layer(&self, i: usize) -> Result<Layer> {
        let h = self.h;
        let p = format!("blk.{i}");
        let m = |name: &str, k: u32, rows: u32, rotary: bool| {
            self.matrix(&format!("{p}.{name}.weight"), k, rows, rotary)
        };
        let v = |name: &str, n: u32| self.vector(&format!("{p}.{name}.weight"), n);
        let opt = |on: bool, name: &str| {
            if on {
                v(name, h.n_embd).map(Some)
            } else {
                Ok(None)
            }
        };
        let qkv = vec![
            (0, m("attn_q", h.n_embd, h.q_dim(), true)?),
            (h.q_dim(), m("attn_k", h.n_embd, h.kv_dim(), true)?),
            (
                h.q_dim() + h.kv_dim(),
                m("attn_v", h.n_embd, h.kv_dim(), false)?,
            ),
        ];
        let gate = m("ffn_gate", h.n_embd, h.n_ff, false)?;
        let up = m("ffn_up", h.n_embd, h.n_ff, false)?;
        let ffn_gate_up = if std::ptr::eq(gate.ty, up.ty) {
            vec![Arc::new(Matrix::join(
                format!("{p}.ffn_gate+up"),
                Order::Interleaved,
                vec![gate, up],
            ))]
        } else {
            vec![Arc::new(gate), Arc::new(up)]
        };
        let qk_norm = if h.qk_norm {
            let mut n = v("attn_q_norm", h.head_dim)?;
            n.extend(v("attn_k_norm", h.head_dim)?);
            Some(n)
        } else {
            None
        };
        Ok(Layer {
            attn_norm: v("attn_norm", h.n_embd)?,
            qkv: stack(&p, qkv),
            qkv_bias: self.bias(&p)?,
            qk_norm,
            attn_output: Arc::new(m("attn_output", h.q_dim(), h.n_embd, false)?),
            post_attention_norm: opt(h.post_norms, "post_attention_norm")?,
            ffn_norm: v("ffn_norm", h.n_embd)?,
            ffn_gate_up,
            ffn_down: Arc::new(m("ffn_down", h.n_ff, h.n_embd, false)?),
            post_ffw_norm: opt(h.post_norms, "post_ffw_norm")?,
        })
    }

    /// Bias of q, k and v as one vector; a missing one of the three counts as zero if optional.
    fn bias(&self, p: &str) -> Result<Option<Vec<f32>>> {
        let h = self.h;
        if h.qkv_bias == Bias::None {
            return Ok(None);
        }
        let mut out = Vec::new();
        let mut any = false;
        for (name, n, rotary) in [
            ("attn_q", h.q_dim(), true),
            ("attn_k", h.kv_dim(), true),
            ("attn_v", h.kv_dim(), false),
        ] {
            let name = format!("{p}.{name}.bias");
            if h.qkv_bias == Bias::Optional && self.g.find(&name).is_none() {
                out.resize(out.len() + n as usize, 0.0);
                continue;
            }
            any = true;
            let b = self.vector(&name, n)?;
            if rotary && h.adjacent_pairs {
                let u = self.unpair();
                out.extend((0..b.len()).map(|r| b[u.source(r)]));
            } else {
                out.extend(b);
            }
        }
        Ok(any.then_some(out))
    }
}

/// Joins neighbours of one type, so that they are one dispatch.
fn stack(p: &str, all: Vec<(u32, Matrix)>) -> Vec<(u32, SharedMatrix)> {
    let mut groups: Vec<(u32, Vec<Matrix>)> = Vec::new();
    for (row, m) in all {
        match groups.last_mut() {
            Some((_, g)) if std::ptr::eq(g[0].ty, m.ty) => g.push(m),
            _ => groups.push((row, vec![m])),
        }
    }
    groups
        .into_iter()
        .map(|(row, g)| {
            let names: Vec<&str> = g
                .iter()
                .map(|m| m.label.rsplit("attn_").next().unwrap_or(""))
                .collect();
            let label = format!("{p}.attn_{}", names.join("+"));
            (row, Arc::new(Matrix::join(label, Order::Stacked, g)))
        })
        .collect()
}
