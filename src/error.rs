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
    #[error("{}: not a GGUF file ({})", path.display(), foreign(start))]
    NotGguf { path: PathBuf, start: Vec<u8> },
    #[error(
        "{}: GGUF version {version} is not supported, only 2 and 3; convert the model again with a \
         current converter",
        path.display()
    )]
    GgufVersion { path: PathBuf, version: u32 },
    #[error(
        "{}: a big-endian GGUF file, only little-endian ones are supported; download the \
         little-endian file, or convert the model again without the big-endian option",
        path.display()
    )]
    GgufBigEndian { path: PathBuf },
    #[error(
        "{}: the file ends inside {what}: {need} bytes are needed at byte {at}, the file has \
         {size}; it is damaged or not wholly downloaded",
        path.display()
    )]
    GgufTruncated {
        path: PathBuf,
        what: String,
        at: u64,
        need: u64,
        size: u64,
    },
    #[error(
        "{}: {what} gives a count of {count}, more than a file of {size} bytes can hold; the file \
         is damaged",
        path.display()
    )]
    GgufCount {
        path: PathBuf,
        what: String,
        count: u64,
        size: u64,
    },
    #[error("{}: key {key} has unknown value type {id}; the file is damaged", path.display())]
    GgufValueType { path: PathBuf, key: String, id: u32 },
    #[error("{}: key {key} nests arrays more than {limit} deep", path.display())]
    GgufNesting {
        path: PathBuf,
        key: String,
        limit: u32,
    },
    #[error(
        "{}: general.alignment is {found}, it must be a power of two from 8 to 2^30",
        path.display()
    )]
    GgufAlignment { path: PathBuf, found: String },
    #[error("{}: key {key} stands in the file twice", path.display())]
    KeyTwice { path: PathBuf, key: String },
    #[error("{}: key {key} is missing", path.display())]
    KeyMissing { path: PathBuf, key: String },
    #[error("{}: key {key} should be {wanted} but is {found}", path.display())]
    KeyType {
        path: PathBuf,
        key: String,
        wanted: &'static str,
        found: String,
    },
    #[error("{}: a tensor's name is not UTF-8: \"{name}\"", path.display())]
    TensorName { path: PathBuf, name: String },
    #[error("{}: tensor {name} stands in the file twice", path.display())]
    TensorTwice { path: PathBuf, name: String },
    #[error("{}: tensor {name} has {n_dims} dimensions, 1 to 4 are possible", path.display())]
    TensorDims {
        path: PathBuf,
        name: String,
        n_dims: u32,
    },
    #[error("{}: tensor {name} has the impossible shape {shape:?}", path.display())]
    TensorSize {
        path: PathBuf,
        name: String,
        shape: Vec<u64>,
    },
    #[error("{}: tensor {name} has {}", path.display(), tensor_type(*id, *removed))]
    TensorType {
        path: PathBuf,
        name: String,
        id: u32,
        removed: Option<&'static str>,
    },
    #[error(
        "{}: tensor {name} has rows of {row} weights, {ty} needs a multiple of {block}",
        path.display()
    )]
    TensorRow {
        path: PathBuf,
        name: String,
        ty: &'static str,
        row: u64,
        block: u64,
    },
    #[error(
        "{}: tensor {name} lies at offset {offset}, which is not a multiple of the alignment \
         {alignment}",
        path.display()
    )]
    TensorOffset {
        path: PathBuf,
        name: String,
        offset: u64,
        alignment: u64,
    },
    #[error(
        "{}: tensor {name} ends at byte {end} but the file has only {size} bytes; it is damaged or \
         not wholly downloaded",
        path.display()
    )]
    TensorTruncated {
        path: PathBuf,
        name: String,
        end: u64,
        size: u64,
    },
    #[error("{}: the data of tensors {a} and {b} overlaps; the file is damaged", path.display())]
    TensorOverlap { path: PathBuf, a: String, b: String },
    #[error("{}: tensor {name} is missing", path.display())]
    TensorMissing { path: PathBuf, name: String },
    #[error("{}: tensor {name} has shape {found:?}, {wanted:?} is needed", path.display())]
    TensorShape {
        path: PathBuf,
        name: String,
        wanted: Vec<u64>,
        found: Vec<u64>,
    },
    #[error(
        "{}: part {no} of {count} of a split model; open its first part, {}",
        path.display(), first.display()
    )]
    SplitNotFirst {
        path: PathBuf,
        first: PathBuf,
        no: u64,
        count: u64,
    },
    #[error(
        "{}: part {no} of {count} of a split model, but its name does not end in \
         -{no:05}-of-{count:05}.gguf, so the other parts cannot be found; restore the name",
        path.display()
    )]
    SplitName { path: PathBuf, no: u64, count: u64 },
    #[error(
        "{}: a model split over {count} files, of which {} is missing; put it into the same folder",
        path.display(), missing.display()
    )]
    SplitMissing {
        path: PathBuf,
        missing: PathBuf,
        count: u64,
    },
    #[error(
        "{}: does not say that it is part {no} of {count}, as its name and {} do",
        path.display(), first.display()
    )]
    SplitMixed {
        path: PathBuf,
        first: PathBuf,
        no: u64,
        count: u64,
    },
    #[error("{}: the parts hold {found} tensors, split.tensors.count says {wanted}", path.display())]
    SplitTensors {
        path: PathBuf,
        wanted: u64,
        found: u64,
    },
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
        "the prompt is empty: give one with -p TEXT, --prompt-file FILE or --prompt-tokens IDS, or pipe it in"
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

/// What a file that is not GGUF looks like.
fn foreign(start: &[u8]) -> String {
    match start {
        [] => "it is empty".into(),
        [b'l' | b'f', b'm', b'g', b'g', ..] | [b't', b'j', b'g', b'g', ..] => {
            "an older ggml format: convert the model again".into()
        }
        [b'<', ..] => "it looks like a web page: a failed download?".into(),
        _ => format!("it starts with \"{}\"", start.escape_ascii()),
    }
}

fn tensor_type(id: u32, removed: Option<&str>) -> String {
    match removed {
        Some(name) => format!("type {id} ({name}), which was removed from the format"),
        None => format!("unknown type {id}"),
    }
}
