//! `llama`: Llama, Mistral, SmolLM and their kin. Rotary pairs are neighbours in the file (the
//! converter permutes q and k); Llama 3 divides the angles by `rope_freqs.weight`.

use crate::Result;
use crate::gguf::Gguf;
use crate::model::hyper::{Bias, Hyper};
use crate::model::matrix;

pub fn hyper(g: &Gguf) -> Result<Hyper> {
    let mut h = Hyper::common(g, "llama")?;
    h.adjacent_pairs = true;
    h.qkv_bias = Bias::Optional;
    if g.find("rope_freqs.weight").is_some() {
        let pairs = h.ropes[0].rot / 2;
        h.ropes[0].factors = Some(matrix::vector(g, "rope_freqs.weight", pairs)?);
    }
    Ok(h)
}
