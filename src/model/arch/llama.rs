//! `llama`: Llama, Mistral, SmolLM and their kin. Rotary pairs are neighbours in the file (the
//! converter permutes q and k); Llama 3 divides the angles by `rope_freqs.weight`.

use crate::gguf::Gguf;
use crate::model::hyper::{Bias, Hyper};
use crate::model::matrix;
use crate::{Error, Result};

pub fn hyper(g: &Gguf) -> Result<Hyper> {
    let mut h = Hyper::common(g, "llama")?;
    h.adjacent_pairs = true;
    h.qkv_bias = Bias::Optional;
    if g.find("rope_freqs.weight").is_some() {
        let pairs = h.ropes[0].rot / 2;
        let factors = matrix::vector(g, "rope_freqs.weight", pairs)?;
        if let Some(bad) = factors.iter().find(|f| **f <= 0.0) {
            return Err(Error::KeyValue {
                path: g.path().to_path_buf(),
                key: "rope_freqs.weight".into(),
                value: bad.to_string(),
                why: "its numbers divide angles and must be positive",
            });
        }
        h.ropes[0].factors = Some(factors);
    }
    Ok(h)
}
