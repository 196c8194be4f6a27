//! What a token costs at least: the bytes a device must read for it and the operations it must do.
//! Derived from the model alone, so that no way of computing it can make its own figure better.

use std::collections::BTreeMap;

use crate::gguf::Gguf;
use crate::model::Model;
use crate::plan::Sizes;

/// The least work of a model's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Weights by tensor type, most first.
    pub types: Vec<(&'static str, u64)>,
    /// Weights in products of every token.
    pub layer_weights: u64,
    /// Weights in the product that makes logits.
    pub output_weights: u64,
    /// Numbers of a query over all heads of a layer.
    pub query: u64,
    /// K and V bytes of one position in one layer.
    pub kv_layer_position: u64,
    /// Positions that a query of each layer sees, its own included; `None`: all.
    pub windows: Vec<Option<u32>>,
}

impl Work {
    pub(super) fn of(g: &Gguf, m: &Model, s: &Sizes) -> Work {
        let mut types = BTreeMap::new();
        for t in g.tensors() {
            *types.entry(t.ty.name).or_insert(0) += t.weights();
        }
        let mut types: Vec<_> = types.into_iter().collect();
        types.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let weights = |m: &crate::model::Matrix| (m.rows * m.k) as u64;
        let layer_weights = m.weights.matrices().iter().map(|m| weights(m)).sum::<u64>();
        let (embedding, output) = (&m.weights.token_embd, &m.weights.output);
        let tied = std::sync::Arc::ptr_eq(embedding, output);
        let ends = weights(output) + if tied { 0 } else { weights(embedding) };
        Work {
            types,
            layer_weights: layer_weights - ends,
            output_weights: weights(output),
            query: u64::from(m.hyper.n_head * m.hyper.head_dim),
            kv_layer_position: s.kv_bytes_per_position(&m.hyper) / m.hyper.layers.len() as u64,
            windows: m.hyper.layers.iter().map(|l| l.window).collect(),
        }
    }

    /// Positions that queries see, summed over layers, when a sequence is `positions` long with them.
    fn seen(&self, positions: u64) -> u64 {
        let one = |w: &Option<u32>| w.map_or(positions, |w| positions.min(u64::from(w)));
        self.windows.iter().map(one).sum()
    }

    /// K and V bytes that one decode step reads for a sequence that is `positions` long with it.
    pub fn kv_bytes(&self, positions: u64) -> u64 {
        self.kv_layer_position * self.seen(positions)
    }

    /// Mean of [`Self::kv_bytes`] over `n` decode steps, the first of which makes a sequence of
    /// `before` positions one longer.
    pub fn mean_kv_bytes(&self, before: u64, n: u64) -> f64 {
        let sum: u64 = (1..=n).map(|i| self.kv_bytes(before + i)).sum();
        sum as f64 / n.max(1) as f64
    }

    /// Floating-point operations of `n` tokens behind `before` positions: two per weight and token,
    /// and four per number of a query and position it sees. Logits are made for `logits` of them.
    pub fn flops(&self, before: u64, n: u64, logits: u64) -> f64 {
        let seen: u64 = (1..=n).map(|i| self.seen(before + i)).sum();
        let products = self.layer_weights * n + self.output_weights * logits;
        2.0 * products as f64 + 4.0 * self.query as f64 * seen as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cost::Bytes;
    use crate::plan::{Batch, Which};

    fn work(windows: &[Option<u32>]) -> Work {
        Work {
            layer_weights: 1000,
            output_weights: 100,
            query: 8,
            kv_layer_position: 10,
            windows: windows.to_vec(),
            ..Work::default()
        }
    }

    #[test]
    fn a_window_bounds_what_is_read() {
        let w = work(&[None, Some(4), Some(16)]);
        assert_eq!(w.kv_bytes(3), 10 * (3 + 3 + 3));
        assert_eq!(w.kv_bytes(10), 10 * (10 + 4 + 10));
        assert_eq!(w.kv_bytes(100), 10 * (100 + 4 + 16));
        // Steps that see 3, 4, 5 positions: (9 + 12 + 14) / 3 layers' worth.
        assert_eq!(w.mean_kv_bytes(2, 3), 10.0 * 35.0 / 3.0);
        assert_eq!(w.mean_kv_bytes(2, 0), 0.0);
    }

    /// With one sequence the steps of a plan read what the model says, and nothing twice.
    #[test]
    fn plans_read_no_more_than_the_least() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/models");
        for file in ["llama_q4_1", "gemma3_q4_0", "qwen2_q4_k"] {
            let gguf = Gguf::open(&dir.join(file).with_extension("gguf")).unwrap();
            let model = Model::from_gguf(&gguf).unwrap();
            for software in [true, false] {
                let caps = crate::kernel::Caps {
                    software,
                    ..crate::kernel::Caps::usual_gpu()
                };
                let wish = crate::plan::sizes::Wish {
                    context: Some(100),
                    slots: 1,
                    chunk: None,
                };
                let sizes = Sizes::fit(&model.hyper, &caps, wish).unwrap();
                let program = crate::plan::build(&model, &caps, sizes);
                let work = Work::of(&gguf, &model, &sizes);
                let weights = crate::plan::sizes::weight_bytes_per_token(&model);
                for kv_len in [1, 5, 64, 100] {
                    let batch = Batch { cols: 1, kv_len };
                    let steps = program.steps(Which::Decode);
                    let mut sum = Bytes::default();
                    for step in steps.filter(|s| s.shader.kernel != "get_rows") {
                        sum += program.bytes(step, Which::Decode, batch);
                    }
                    let kv = work.kv_bytes(u64::from(kv_len));
                    assert_eq!(sum, Bytes { weights, kv }, "{file} {software} {kv_len}");
                }
            }
        }
    }

    #[test]
    fn operations_of_products_and_of_attention() {
        let w = work(&[None, Some(2)]);
        assert_eq!(w.flops(0, 1, 1), 2.0 * 1100.0 + 4.0 * 8.0 * 2.0);
        // Three tokens see 1 + 1, 2 + 2 and 3 + 2 positions.
        assert_eq!(w.flops(0, 3, 1), 2.0 * 3100.0 + 4.0 * 8.0 * 11.0);
        assert_eq!(w.flops(5, 1, 0), 2.0 * 1000.0 + 4.0 * 8.0 * 8.0);
    }
}
