//! `qwen2`: Qwen 2 and 2.5. Rotary halves, bias on q, k and v.

use crate::Result;
use crate::gguf::Gguf;
use crate::model::hyper::{Bias, Hyper};

pub fn hyper(g: &Gguf) -> Result<Hyper> {
    let mut h = Hyper::common(g, "qwen2")?;
    h.qkv_bias = Bias::Required;
    Ok(h)
}
