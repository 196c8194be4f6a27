//! A model as plain values: [`Hyper`] holds every difference between architectures, [`Weights`] names
//! the matrices of every layer. File oddities are normalised here, once: rotary rows are put into
//! one order, a tied output points at the embedding, projections of one type are stacked.

pub mod arch;
pub mod hyper;
pub mod matrix;
pub mod rope;
pub mod weights;

pub use hyper::{Act, Hyper, LayerHyper};
pub use matrix::Matrix;
pub use rope::Rope;
pub use weights::{Layer, Weights};

use crate::Result;
use crate::gguf::Gguf;

/// A model whose every tensor has been found with the right shape and a type we can run.
pub struct Model {
    /// Shapes and constants.
    pub hyper: Hyper,
    /// Matrices and vectors.
    pub weights: Weights,
}

impl Model {
    /// Reads the model's description; weights stay in the mapped file.
    pub fn from_gguf(g: &Gguf) -> Result<Model> {
        let hyper = arch::find(g)?.read(g)?;
        let weights = Weights::find(g, &hyper)?;
        Ok(Model { hyper, weights })
    }
}
