//! Everything that can go wrong, by name. Variants carry data; the sentences stand here, beside
//! them, and nowhere else, and only the binary prints them.

use std::path::PathBuf;

/// Short form used throughout the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A fault of a file, a prompt, a flag or a device. Our own broken promises are `assert!`s instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the message is the documentation
pub enum Error {
    // --- files -----------------------------------------------------------------------------
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },

    // --- GGUF (gguf/, quant/) --------------------------------------------------------------

    // --- model (model/) --------------------------------------------------------------------

    // --- text (text/) ----------------------------------------------------------------------

    // --- device (gpu/) ---------------------------------------------------------------------

    // --- engine (engine/, sampler/) --------------------------------------------------------

    // --- models by name (cli/pull) ---------------------------------------------------------
}
