//! Models that exist by shape only: the tensors and the type mix of a well-known model with random
//! weights, so that speed can be measured and memory be asked for without its file. [`open`] gives a
//! [`Gguf`] like any other, whose data are a few MB of random rows, repeated.

mod mix;
mod pool;
mod shapes;
mod tensors;
mod words;

pub use mix::Mix;
pub use shapes::Shape;

use crate::gguf::{self, Gguf, NewTensor, Value};
use crate::{Error, Result};
use pool::Pool;
use shapes::Rope;

/// Type mix of a name that gives none.
const DEFAULT_TYPE: &str = "q4_k_m";

/// Names of all shapes.
pub fn names() -> Vec<&'static str> {
    shapes::ALL.iter().map(|s| s.name).collect()
}

/// Names of all type mixes.
pub fn types() -> Vec<&'static str> {
    mix::ALL.iter().map(|m| m.name).collect()
}

/// The model `NAME[:TYPE]`, for example `llama-3.1-8b:q4_k_m`; letters of either case.
pub fn open(wish: &str) -> Result<Gguf> {
    let wish = wish.to_lowercase();
    let (name, ty) = wish.split_once(':').unwrap_or((&wish, DEFAULT_TYPE));
    let shape = shapes::ALL.iter().find(|s| s.name == name);
    let shape = shape.ok_or_else(|| Error::SyntheticName {
        name: name.into(),
        known: names(),
    })?;
    let mix = mix::ALL.iter().find(|m| m.name == ty);
    let mix = mix.ok_or_else(|| Error::SyntheticType {
        name: ty.into(),
        known: types(),
    })?;
    build(shape, mix)
}

/// A model of two small layers in a mix of weight types: enough to try a device's kernels with.
pub fn probe(ty: &str) -> Result<Gguf> {
    let mix = mix::ALL.iter().find(|m| m.name == ty);
    let mix = mix.ok_or_else(|| Error::SyntheticType {
        name: ty.into(),
        known: types(),
    })?;
    build(&shapes::PROBE, mix)
}

fn build(shape: &Shape, mix: &Mix) -> Result<Gguf> {
    let planned = tensors::all(shape, mix);
    let (pool, places) = Pool::fill(&planned);
    let list: Vec<NewTensor> = planned.into_iter().map(|p| p.tensor).collect();
    let mut meta = metadata(shape, mix);
    meta.extend(words::metadata(&shape.vocab, shape.n_vocab));
    let header = gguf::header(&meta, &list);
    let name = format!("{}:{}", shape.name, mix.name);
    Gguf::repeating(&name, header, pool, |t| {
        places.get(&t.name).cloned().unwrap_or(0..0)
    })
}

/// The keys a converter writes, without those of the tokenizer.
fn metadata(s: &Shape, mix: &Mix) -> Vec<(String, Value)> {
    let mut meta: Vec<(String, Value)> = Vec::new();
    let text = |t: &str| Value::Str(t.as_bytes().to_vec());
    let mut add = |key: &str, value: Value| meta.push((key.to_owned(), value));
    add("general.architecture", text(s.arch));
    add("general.type", text("model"));
    let name = format!("{} (random weights)", s.name);
    add("general.name", text(&name));
    add("general.file_type", Value::U32(mix.file_type));
    add("general.quantization_version", Value::U32(2));
    let mut own = |key: &str, value: Value| add(&format!("{}.{key}", s.arch), value);
    own("block_count", Value::U32(s.n_layer));
    own("context_length", Value::U32(s.context));
    own("embedding_length", Value::U32(s.n_embd));
    own("feed_forward_length", Value::U32(s.n_ff));
    own("attention.head_count", Value::U32(s.n_head));
    own("attention.head_count_kv", Value::U32(s.n_head_kv));
    own("attention.key_length", Value::U32(s.head_dim));
    own("attention.value_length", Value::U32(s.head_dim));
    own("attention.layer_norm_rms_epsilon", Value::F32(s.eps));
    own("rope.freq_base", Value::F32(s.rope_base));
    own("rope.dimension_count", Value::U32(s.head_dim));
    own("vocab_size", Value::U32(s.n_vocab));
    if let Some(window) = s.window {
        own("attention.sliding_window", Value::U32(window));
    }
    if let Rope::Linear(factor) = s.rope {
        own("rope.scaling.type", text("linear"));
        own("rope.scaling.factor", Value::F32(factor));
    }
    meta
}

#[cfg(test)]
mod tests;
