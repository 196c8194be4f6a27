//! Everything that can go wrong, by name. Variants carry data; the sentences stand here, beside
//! them, and nowhere else, and only the binary prints them.

mod text;

use std::path::PathBuf;
use text::{again, foreign, own_numbers, quarantined, tensor_type};

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
    #[error("{}: exists already; remove it or give another name", path.display())]
    FileExists { path: PathBuf },
    #[error(
        "{}: {source}; the file needs {bytes} bytes: make room, or choose another folder",
        path.display()
    )]
    FileWrite {
        path: PathBuf,
        bytes: u64,
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
    #[error(
        "{}: {what} goes beyond the first {limit} bytes, in which the metadata of a model must lie; the \
         file is damaged",
        path.display()
    )]
    GgufHeaderLong {
        path: PathBuf,
        what: String,
        limit: u64,
    },
    #[error(
        "{}: the file became shorter while it was read: it had {size} bytes and has {now}, and {what} is \
         cut off; let no other program write to it, or get it again",
        path.display()
    )]
    FileShrank {
        path: PathBuf,
        what: String,
        size: u64,
        now: u64,
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
    #[error(
        "{}: architecture '{name}' is not supported; supported are {}",
        path.display(),
        known.join(", ")
    )]
    ArchUnknown {
        path: PathBuf,
        name: String,
        known: Vec<&'static str>,
    },
    #[error("{}: {key} is {value}, but {why}", path.display())]
    KeyValue {
        path: PathBuf,
        key: String,
        value: String,
        why: &'static str,
    },
    #[error("{}: {key} is {value}, it must be from {min} to {max}", path.display())]
    KeyRange {
        path: PathBuf,
        key: String,
        value: u32,
        min: u32,
        max: u32,
    },
    #[error(
        "{}: rope.scaling.type '{name}' is not supported; supported are none, linear and yarn",
        path.display()
    )]
    RopeScaling { path: PathBuf, name: String },
    #[error(
        "{}: tensor {tensor} is of type {ty}, which cannot be run; supported are {}: choose such a \
         file",
        path.display(),
        known.join(", ")
    )]
    TensorTypeUnsupported {
        path: PathBuf,
        tensor: String,
        ty: &'static str,
        known: Vec<&'static str>,
    },
    #[error(
        "{}: tensor {tensor} holds numbers that are none (NaN or infinity) in row {row}: its weights are \
         damaged; download or convert the model again",
        path.display()
    )]
    WeightNotFinite {
        path: PathBuf,
        tensor: String,
        row: usize,
    },
    #[error(
        "{}: the tokenizer has {tokens} tokens but token_embd only {rows} rows; the file is damaged",
        path.display()
    )]
    VocabTooLarge {
        path: PathBuf,
        tokens: usize,
        rows: u32,
    },
    #[error(
        "{}: tensor {tensor} has no place in a {arch} model of {layers} layers; running without it \
         would give wrong answers",
        path.display()
    )]
    TensorUnused {
        path: PathBuf,
        tensor: String,
        arch: &'static str,
        layers: usize,
    },

    // --- synthetic models (synth/) ---------------------------------------------------------
    #[error("no synthetic model is called '{name}'; there are: {}", known.join(", "))]
    SyntheticName {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("no synthetic model has weights of type '{name}'; there are: {}", known.join(", "))]
    SyntheticType {
        name: String,
        known: Vec<&'static str>,
    },

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
    #[error(
        "the chat template takes more than {seconds} seconds for this chat; it is made badly or means harm: \
         use --raw, or another template"
    )]
    TemplateSlow { seconds: u64 },
    #[error("{}: this model has no chat template (tokenizer.chat_template)", path.display())]
    NoTemplate { path: PathBuf },
    #[error("{}: {what}", path.display())]
    Messages { path: PathBuf, what: String },
    // --- device (gpu/) ---------------------------------------------------------------------
    #[error(
        "no Vulkan, Metal or DX12 device was found; install a GPU driver, or a software one (Debian \
         and Ubuntu: mesa-vulkan-drivers libvulkan1)"
    )]
    NoAdapter,
    #[error("no device matches --device '{wish}'; there are: {}", known.join(", "))]
    NoSuchDevice { wish: String, known: Vec<String> },
    #[error("device {device} could not be opened: {reason}")]
    DeviceRefused { device: String, reason: String },
    #[error(
        "device {device} was lost and is gone; there are: {}; pick another one with --device",
        known.join(", ")
    )]
    DeviceGone { device: String, known: Vec<String> },
    #[error("device {device} gave no answer: {reason}")]
    DeviceStuck { device: String, reason: String },
    #[error(
        "device {device} was lost ({reason}){}; the driver's log may say why, and `tokstep doctor` what works",
        again(*times)
    )]
    DeviceLost {
        device: String,
        reason: String,
        /// How often within a minute.
        times: u32,
    },
    #[error("device {device} refused what it was given: {reason}")]
    DeviceRejects { device: String, reason: String },
    #[error(
        "{name} needs {bytes} bytes in one piece, the device's {what} is {limit}; choose a smaller \
         context (-c), fewer sequences or a device with larger limits (tokstep devices, --limits)"
    )]
    BufferTooLarge {
        name: String,
        bytes: u64,
        what: &'static str,
        limit: u64,
    },
    #[error(
        "a row of {matrix} needs {bytes} bytes, and the device has room for {limit} bytes in one \
         piece: too little for a tile of rows; choose a device with larger limits (tokstep devices, \
         --limits)"
    )]
    RowTooLarge {
        matrix: String,
        bytes: u64,
        limit: u64,
    },
    #[error(
        "not enough device memory for {name} ({bytes} bytes of {pool}): {reason}; choose a smaller \
         model or context (-c)"
    )]
    OutOfMemory {
        name: String,
        pool: &'static str,
        bytes: u64,
        reason: String,
    },
    #[error(
        "the model with a context of {context} takes {bytes} bytes, and the device has {memory} \
         left; {}",
        match largest {
            Some(n) => format!("the largest context that fits is {n} (-c {n}, or -c auto)"),
            None => "no context is small enough: choose a smaller model, -c makes no difference".into(),
        }
    )]
    NoRoom {
        context: u32,
        bytes: u64,
        memory: u64,
        largest: Option<u32>,
    },
    #[error("shader {shader} does not compile, at shaders/{file}:{line}: {message}")]
    Shader {
        shader: String,
        file: &'static str,
        line: usize,
        message: String,
    },
    #[error("step {step} ({shader}) cannot be bound: {reason}")]
    Bind {
        step: String,
        shader: String,
        reason: String,
    },

    // --- engine (engine/, sampler/) --------------------------------------------------------
    #[error("a context of {context} positions is too small; give -c at least 1")]
    ContextTooSmall { context: u32 },
    #[error(
        "a context of {context} positions for {slots} sequence(s) does not fit this device, whose \
         max_storage_buffer_binding_size is {limit}: a layer's keys are one binding; the largest \
         that does is {largest} (-c)"
    )]
    ContextTooLarge {
        context: u32,
        largest: u32,
        slots: u32,
        limit: u64,
    },
    #[error(
        "the logits of {slots} sequence(s) over {n_vocab} tokens do not fit a binding: the device's \
         max_storage_buffer_binding_size is {limit}; choose fewer sequences or a device with larger \
         limits (tokstep devices, --limits)"
    )]
    LogitsTooLarge {
        n_vocab: u32,
        slots: u32,
        limit: u64,
    },
    #[error("the prompt is empty; give at least one token")]
    EmptyPrompt,
    #[error(
        "the prompt has {tokens} tokens{}, more than the context of {context}; shorten it or give a \
         larger -c",
        match held { 0 => String::new(), n => format!(", with the {n} already held {}", n + tokens) }
    )]
    PromptTooLong {
        tokens: usize,
        held: usize,
        context: u32,
    },
    #[error("token id {id} is outside the vocabulary of {n_vocab}")]
    TokenOutOfRange { id: u32, n_vocab: u32 },
    #[error("sampling with {name} = {value} would not give numbers")]
    SampleOption { name: &'static str, value: f32 },
    #[error(
        "{flag}: no sensor shows {what}; looked at {looked}. Leave {flag} out, make the files readable \
         (energy counters are often root's alone), or name a folder laid out like /sys with --sensors"
    )]
    NoSensor {
        flag: &'static str,
        what: &'static str,
        looked: String,
    },
    #[error("all {slots} sequence slots are taken")]
    NoSlot { slots: u32 },
    #[error(
        "the model's logits after {position} tokens are not numbers (NaN or infinity), and were when the \
         device computed them again: the device computes wrongly now and then{}",
        match verified {
            false => "; run with --verify to see where",
            true => "",
        }
    )]
    NotFinite { position: usize, verified: bool },
    #[error(
        "the model's logits after {position} tokens are not numbers (NaN or infinity); that begins in \
         {label} ({shader}), whose inputs are finite, up to {largest:.3e} (from {from}): the file's \
         weights there are damaged or too large, {}",
        match verified {
            false => "or the device computes wrongly; run with --verify to see which",
            true => "the device computes the same as the CPU",
        }
    )]
    NotFiniteIn {
        position: usize,
        label: String,
        shader: String,
        largest: f32,
        from: String,
        verified: bool,
    },
    #[error(
        "no variant of kernel {kernel} computes right numbers on {device} ({evidence}); update the driver, or \
         pick another adapter with --device; `tokstep verify` tests this one again"
    )]
    NoVariant {
        kernel: String,
        device: String,
        evidence: String,
    },
    #[error(
        "{variants} kernel variants compute wrong numbers on {device} or are refused there{}; tell the driver's makers",
        quarantined(*kept)
    )]
    WrongVariants {
        variants: usize,
        device: String,
        /// Whether the next load will know.
        kept: bool,
    },
    #[error("interrupted: {what}")]
    Interrupted { what: &'static str },
    #[error("the fault to plant, {text:?}: {reason}")]
    Fault { text: String, reason: String },
    #[error(
        "step {step} of {plan} ({label}, {shader}) differs between {device} and the CPU: {detail}{}",
        own_numbers(*finite)
    )]
    Verify {
        plan: &'static str,
        step: usize,
        label: String,
        shader: String,
        device: String,
        detail: String,
        /// Neither is infinite or no number at all.
        finite: bool,
    },

    // --- models by name (models/) ----------------------------------------------------------
    #[error(
        "{model}: no such file, and no known model has this name (known: {known}); give a path to a GGUF file or see `tokstep pull --list`"
    )]
    ModelNotFound { model: String, known: String },
    #[error(
        "{}: {source}; the model cache cannot be written: make its folder writable or set \
         TOKSTEP_CACHE to another one",
        path.display()
    )]
    CacheWrite {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("no folder for the model cache: HOME is not set; set TOKSTEP_CACHE to one")]
    NoCacheDir,
    #[error(
        "could not get {model} ({file}); tried, in this order:\n{}\nOr put the file, sha256 {sha256}, into {} by hand",
        tried.iter().map(|(source, why)| format!("  {source}: {why}")).collect::<Vec<_>>().join("\n"),
        cache.display()
    )]
    NotFetched {
        model: &'static str,
        file: &'static str,
        sha256: &'static str,
        cache: PathBuf,
        tried: Vec<(String, String)>,
    },

    // --- command line (cli/) ---------------------------------------------------------------
    #[error(
        "the prompt is empty: give one with -p TEXT, --prompt-file FILE or --prompt-tokens IDS, or pipe it in"
    )]
    NoPrompt,
    #[error("nothing to measure: -p and -n are 0; give one of them a number of tokens")]
    NothingToMeasure,
    #[error("nothing to plot: --plot draws decode steps and -n is 0; give -n a number of tokens")]
    NothingToPlot,
    #[error("with {with}, {flag} takes one number and not {given}")]
    OneNumber {
        flag: &'static str,
        with: &'static str,
        given: usize,
    },
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
    NotEnoughContext {
        what: String,
        need: usize,
        context: u32,
    },
    #[error("doctor found what is not well: {stages}; what to do stands with each of them")]
    NotWell { stages: String },
    #[error("line editor: {0}")]
    LineEditor(String),
}

impl Error {
    /// Whether no more work is to be had from the device.
    pub fn ends_device(&self) -> bool {
        matches!(
            self,
            Error::DeviceLost { .. } | Error::DeviceGone { .. } | Error::DeviceStuck { .. }
        )
    }
}
