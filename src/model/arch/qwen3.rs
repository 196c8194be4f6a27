//! `qwen3`: rotary halves, no bias, an RMS norm on every q and k head.

use crate::Result;
use crate::gguf::Gguf;
use crate::model::hyper::Hyper;

pub fn hyper(g: &Gguf) -> Result<Hyper> {
    let mut h = Hyper::common(g, "qwen3")?;
    h.qk_norm = true;
    Ok(h)
}
