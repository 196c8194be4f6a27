//! Tokstep runs large language models from one GGUF file on any GPU through WGSL compute shaders.

pub mod engine;
pub mod error;
pub mod gguf;
pub mod gpu;
pub mod kernel;
pub mod model;
pub mod plan;
pub mod quant;
pub mod reference;
pub mod text;

pub use error::{Error, Result};
