//! Tokstep runs large language models from one GGUF file on any GPU through WGSL compute shaders.

pub mod error;
pub mod gguf;
pub mod models;
pub use error::{Error, Result};
