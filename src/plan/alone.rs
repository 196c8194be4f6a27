//! Matrix products as programs of their own, so that a kernel can be timed without the rest of a model:
//! the same steps, variants, shards and epilogues as in the model's plans, but for the norms that decode
//! plans fuse into them.

use std::sync::Arc;

use super::build::Builder;
use super::product::Product;
use super::{Init, Program, Sizes, Step, Tuning};
use crate::kernel::Caps;
use crate::kernel::params::Mode;
use crate::model::matrix::SharedMatrix;
use crate::model::{Act, Model};

/// A product of a model.
#[derive(Clone)]
pub struct Kind {
    /// What it computes, without its layer: `attn_q+k+v`, `output`.
    pub name: String,
    /// The matrix, one of all that are alike.
    pub matrix: SharedMatrix,
    /// What is done with results.
    pub mode: Mode,
    /// Makes the logits, so prompts need it for one column.
    pub output: bool,
}

/// The products of a model, those of the same name, type and size once.
pub fn kinds(model: &Model) -> Vec<Kind> {
    let gate = match model.hyper.act {
        Act::Silu => Mode::Silu,
        Act::Gelu => Mode::Gelu,
    };
    let mut all: Vec<Kind> = Vec::new();
    let mut add = |matrix: &SharedMatrix, mode, output| {
        let label = match output {
            true => "output",
            false => &matrix.label,
        };
        let name = match label.strip_prefix("blk.").and_then(|l| l.split_once('.')) {
            Some((_, part)) => part.to_owned(),
            None => label.to_owned(),
        };
        let alike = |k: &Kind| {
            let (a, b) = (&k.matrix, matrix);
            k.name == name && std::ptr::eq(a.ty, b.ty) && (a.k, a.rows) == (b.k, b.rows)
        };
        if !all.iter().any(alike) {
            all.push(Kind {
                name,
                matrix: matrix.clone(),
                mode,
                output,
            });
        }
    };
    for l in &model.weights.layers {
        let back = match l.post_attention_norm {
            Some(_) => Mode::Store,
            None => Mode::Add,
        };
        l.qkv.iter().for_each(|(_, m)| add(m, Mode::Store, false));
        add(&l.attn_output, back, false);
        match &l.ffn_gate_up[..] {
            [fused] => add(fused, gate, false),
            apart => apart.iter().for_each(|m| add(m, Mode::Store, false)),
        }
        add(&l.ffn_down, back, false);
    }
    add(&model.weights.output, Mode::Store, true);
    all
}

/// A program whose decode plan has the product for each of `columns`, each on so many copies of the matrix
/// in turn, so that no cache of the device holds what comes next. A batch of as many columns runs its own.
pub fn program(model: &Model, caps: &Caps, kind: &Kind, copies: usize, columns: &[u32]) -> Program {
    let most = columns.iter().copied().max().unwrap_or(1);
    let sizes = Sizes {
        width: most.next_multiple_of(32),
        ..Sizes::default()
    };
    let tuning = Tuning::default();
    let mut b = Builder::new(model, caps, sizes, &tuning);
    let copies: Vec<SharedMatrix> = (0..copies.max(1))
        .map(|_| Arc::new((*kind.matrix).clone()))
        .collect();
    copies.iter().for_each(|m| b.upload(m));
    let (k, rows) = (kind.matrix.k as u32, kind.matrix.rows as u32);
    let x = b.act("x", k);
    let out = match kind.mode {
        Mode::Silu | Mode::Gelu => rows / 2,
        Mode::Store | Mode::Add => rows,
    };
    let out = b.act("out", out);
    b.buffers[x.buf].init = Init::F32(Arc::new(noise(b.buffers[x.buf].bytes as usize / 4)));
    let mut body: Vec<Step> = Vec::new();
    for n in columns {
        let first = body.len();
        for m in &copies {
            let product = Product {
                mode: kind.mode,
                ..Product::new(m, x, out)
            };
            b.product(&mut body, product, *n);
        }
        body[first..].iter_mut().for_each(|s| s.live = *n..=*n);
    }
    Program::alone(b.buffers, body)
}

/// Numbers between -1 and 1: what multiplies zeros may take less power, and so be faster.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}
