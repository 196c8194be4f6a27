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
    Io {
        path: PathBuf,
        source: std::io::Error,
    },

    // --- GGUF (gguf/, quant/) --------------------------------------------------------------

    // --- model (model/) --------------------------------------------------------------------

    // --- text (text/) ----------------------------------------------------------------------

    // --- device (gpu/) ---------------------------------------------------------------------

    // --- engine (engine/, sampler/) --------------------------------------------------------

    // --- models by name (models/) ----------------------------------------------------------
    #[error(
        "{model}: no such file, and no known model has this name (known: {known}); give a path to a GGUF file or see `tokstep pull --list`"
    )]
    ModelNotFound { model: String, known: String },
    #[error("no folder for the model cache: HOME is not set; set TOKSTEP_CACHE to one")]
    NoCacheDir,
    #[error(
        "could not get {model} ({file}); tried, in this order:\n{}\nOr put the file, sha256 {sha256}, into {} by hand",
        tried.iter().map(|(source, why)| format!("  {source}: {why}")).collect::<Vec<_>>().join("\n"),
        cache.display()
    )]
    NotFetched {
        model: String,
        file: String,
        sha256: String,
        cache: PathBuf,
        tried: Vec<(String, String)>,
    },

    // --- command line (cli/) ---------------------------------------------------------------
    #[error(
        "no prompt: give one with -p TEXT, --prompt-file FILE or --prompt-tokens IDS, or pipe it in"
    )]
    NoPrompt,
    #[error("--system needs a chat template and {model} has none; put the text into the prompt")]
    NoChatTemplate { model: String },
    #[error(
        "the conversation does not fit: this turn alone has {tokens} tokens, the context {context}; shorten it, or start again with a larger -c"
    )]
    TurnTooLong { tokens: usize, context: u32 },
    #[error("{}: perplexity with -c {chunk} needs at least {} tokens and the file has {tokens}; give a longer text or a smaller -c", file.display(), 2 * chunk)]
    TextTooShort {
        file: PathBuf,
        tokens: usize,
        chunk: usize,
    },
    #[error("{}: not UTF-8 text (first bad byte at {at}); convert it first", file.display())]
    NotUtf8 { file: PathBuf, at: usize },
    #[error(
        "-c {context} is too small: {what} needs a context of {need} tokens; give -c {need} or more"
    )]
    ContextTooSmall {
        what: String,
        need: usize,
        context: u32,
    },
    #[error("line editor: {0}")]
    LineEditor(String),
}
