//! `gemma3` (text): five layers with a sliding window and their own rotary base, then a global one;
//! norms on both sides of each branch, q and k head norms, GELU, scaled embeddings, tied output.
//! Norm weights have their +1 already added in the file.

use crate::Result;
use crate::gguf::Gguf;
use crate::model::hyper::{Act, Hyper, LayerHyper, Reader};
use crate::model::rope::Rope;

pub fn hyper(g: &Gguf) -> Result<Hyper> {
    let mut h = Hyper::common(g, "gemma3")?;
    let r = Reader { g, arch: "gemma3" };
    h.qk_norm = true;
    h.post_norms = true;
    h.act = Act::Gelu;
    h.embd_scale = (h.n_embd as f32).sqrt();
    if h.layers.len() == 62 {
        // The 27B model scales its scores by the width per head, not by the head's length.
        h.attn_scale = 1.0 / (h.n_embd as f32 / h.n_head as f32).sqrt();
    }
    if let Some(c) = g.f32(&r.key("final_logit_softcapping"))? {
        h.softcap = if c == 0.0 {
            0.0
        } else {
            r.number(c, "final_logit_softcapping")?
        };
    }
    let window = r.get("attention.sliding_window", 0, 0, u32::MAX)?;
    if window > 0 {
        let base = g.f32(&r.key("rope.freq_base_swa"))?.unwrap_or(10000.0);
        let base = r.number(base, "rope.freq_base_swa")?;
        h.ropes.push(Rope {
            rot: h.ropes[0].rot,
            base,
            scale: 1.0,
            factors: None,
            yarn: None,
        });
        let local = LayerHyper {
            window: Some(window),
            rope: 1,
        };
        let key = r.key("attention.sliding_window_pattern");
        if let Some(flags) = g.get(&key).and_then(|v| v.as_array()?.scalars()) {
            // One flag per layer: true (or not 0) where the window applies.
            if flags.len() != h.layers.len() {
                let why = "needs one flag per layer";
                return Err(r.bad("attention.sliding_window_pattern", flags.len(), why));
            }
            for (layer, flag) in h.layers.iter_mut().zip(flags) {
                match flag.as_bool().or(flag.as_int().map(|n| n != 0)) {
                    Some(true) => *layer = local.clone(),
                    Some(false) => {}
                    None => {
                        let why = "must be flags, true where the window applies";
                        return Err(r.bad("attention.sliding_window_pattern", flag, why));
                    }
                }
            }
        } else {
            let period = r.get("attention.sliding_window_pattern", 6, 1, u32::MAX)? as usize;
            for (i, layer) in h.layers.iter_mut().enumerate() {
                if i % period != period - 1 {
                    *layer = local.clone();
                }
            }
        }
    }
    Ok(h)
}
