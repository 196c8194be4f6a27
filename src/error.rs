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
    #[error(
        "{}: tokenizer model \"{name}\" (tokenizer.ggml.model) is not supported, only \"gpt2\" \
         (byte-level BPE) and \"llama\" (SentencePiece BPE)",
        path.display()
    )]
    TokenizerModel { path: PathBuf, name: String },
    #[error(
        "{}: pre-tokenizer \"{name}\" (tokenizer.ggml.pre) is not known; known are: {known}",
        path.display()
    )]
    TokenizerPre {
        path: PathBuf,
        name: String,
        known: String,
    },
    #[error("{}: {key} has {found} entries for {tokens} tokens; the file is damaged", path.display())]
    VocabLength {
        path: PathBuf,
        key: String,
        found: usize,
        tokens: usize,
    },
    #[error(
        "{}: entry {index} of tokenizer.ggml.merges, \"{text}\", is not two texts with a space \
         between them",
        path.display()
    )]
    VocabMerge {
        path: PathBuf,
        index: usize,
        text: String,
    },
    #[error("{}: the tokenizer cannot be built: {what}", path.display())]
    TokenizerBuild { path: PathBuf, what: String },
    #[error("the text cannot be tokenized: {0}")]
    Tokenize(String),
    #[error("chat template, line {line}: {what}\n  {line} | {source_line}")]
    Template {
        line: usize,
        source_line: String,
        what: String,
    },
    #[error("chat template: {0}")]
    TemplateOther(String),
    #[error("no thread could be started to render the chat template: {0}")]
    TemplateThread(std::io::Error),
    #[error("{}: this model has no chat template (tokenizer.chat_template)", path.display())]
    NoTemplate { path: PathBuf },
    #[error("{}: {what}", path.display())]
    Messages { path: PathBuf, what: String },
    #[error("\"{0}\" is not a list of token ids such as 1,2,3")]
    TokenIds(String),
    // --- device (gpu/) ---------------------------------------------------------------------

    // --- engine (engine/, sampler/) --------------------------------------------------------

    // --- models by name (cli/pull) ---------------------------------------------------------
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
