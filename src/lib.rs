//! Tokstep runs large language models from one GGUF file on any GPU through WGSL compute shaders.
//!
//! ```no_run
//! use tokstep::{Engine, EngineOptions, GenerateOptions};
//!
//! # fn main() -> tokstep::Result<()> {
//! let engine = Engine::load("model.gguf".as_ref(), &EngineOptions::default(), &mut |_| ())?;
//! let prompt = engine.tokenizer().encode("The sea is", false, true)?;
//! let mut session = engine.session()?;
//! session.prefill(&prompt)?;
//! let options = GenerateOptions { max_tokens: Some(32), ..Default::default() };
//! for piece in session.generate(&options)? {
//!     let piece = piece?;
//!     print!("{}", piece.text); // piece.ids holds its token ids
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A file goes through a straight pipe of plain data: [`gguf`] reads it, [`quant`] knows the weight
//! types, [`model`] the architectures, [`plan`] writes the forward pass as a list of steps,
//! [`kernel`] says what each shader promises, [`gpu`] runs the steps (or [`mod@reference`] does, on the
//! CPU), and [`engine`] drives them. [`text`] turns text into tokens and back.

pub mod engine;
pub mod error;
pub mod gguf;
pub mod gpu;
pub mod kernel;
pub mod model;
pub mod models;
pub mod plan;
pub mod quant;
pub mod reference;
pub mod selftest;
pub mod synth;
pub mod text;

pub use engine::{Engine, EngineOptions, GenerateOptions, Piece, SampleOptions, Session, Stop};
pub use error::{Error, Result};
