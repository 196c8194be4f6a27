//! The architectures we run, one small file each: what its keys mean and where it differs.

mod gemma3;
mod llama;
mod qwen2;
mod qwen3;

use super::Hyper;
use crate::gguf::Gguf;
use crate::{Error, Result};

/// One architecture.
pub struct Arch {
    /// `general.architecture`
    pub name: &'static str,
    hyper: fn(&Gguf) -> Result<Hyper>,
}

/// All of them.
pub static ALL: &[Arch] = &[
    Arch {
        name: "llama",
        hyper: llama::hyper,
    },
    Arch {
        name: "qwen2",
        hyper: qwen2::hyper,
    },
    Arch {
        name: "qwen3",
        hyper: qwen3::hyper,
    },
    Arch {
        name: "gemma3",
        hyper: gemma3::hyper,
    },
];

impl Arch {
    /// Reads the hyperparameters.
    pub fn read(&self, g: &Gguf) -> Result<Hyper> {
        (self.hyper)(g)
    }
}

/// The architecture a file names; an unknown one is an error that lists what we have.
pub fn find(g: &Gguf) -> Result<&'static Arch> {
    let name = g.need_str("general.architecture")?;
    ALL.iter()
        .find(|a| a.name == name)
        .ok_or_else(|| Error::ArchUnknown {
            path: g.path().to_path_buf(),
            name: name.to_string(),
            known: ALL.iter().map(|a| a.name).collect(),
        })
}
