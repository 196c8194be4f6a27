//! Tokstep runs large language models from one GGUF file on any GPU through WGSL compute shaders.

pub mod error;
pub mod kernel;
pub mod reference;
pub use error::{Error, Result};
