//! How byte-level BPE splits text into words before merging, by the name a file gives in
//! `tokenizer.ggml.pre`. The rules are the regular expressions of the models' `tokenizer.json`;
//! which name means which rule is as in llama.cpp.

/// One rule for splitting.
pub(super) struct Pre {
    /// Names that files use for it.
    names: &'static [&'static str],
    /// Expressions, applied one after the other: each match becomes a word, and so does what lies
    /// between matches.
    pub(super) splits: &'static [&'static str],
    /// A word that is a token is taken whole, even where merging would not reach it.
    pub(super) whole_words: bool,
    /// Text is composed (NFC) first, as it was when the model was trained.
    pub(super) nfc: bool,
    /// BOS is added when the file does not say.
    pub(super) add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;

/// Every rule, the plain one first.
static ALL: &[Pre] = &[
    Pre {
        names: &[
            "gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion", "gigachat", "a.x-4.0", "mellum",
            "exaone4", "granite-docling",
        ],
        splits: &[GPT2],
        whole_words: false,
        nfc: false,
        add_bos: false,
    },
    Pre {
        names: &["default"],
        splits: &[r"[\p{P}\$\+<=>\^\~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
        ..ALL[0]
    },
    Pre {
        names: &[
            "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
            "mellum2",
        ],
        splits: &[r"\p{N}", GPT2],
        ..ALL[0]
    },
    Pre {
        names: &["falcon"],
        splits: &[r"[\p{P}\$\+<=>\^\~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
        ..ALL[0]
    },
    Pre {
        names: &[
            "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0",
            "lfm2",
        ],
        splits: &[LLAMA3],
        whole_words: true,
        add_bos: true,
        ..ALL[0]
    },
    Pre {
        names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"],
        splits: &[LLAMA3],
        ..ALL[0]
    },
    Pre {
        names: &["qwen2"],
        splits: &[QWEN2],
        nfc: true,
        ..ALL[0]
    },
    Pre {
        names: &[
            "deepseek-r1-qwen", "stablelm2", "megrez", "kormo", "hunyuan", "solar-open", "grok-2",
        ],
        splits: &[QWEN2],
        ..ALL[0]
    },
    Pre {
        names: &["qwen35"],
        splits: &[QWEN35],
        nfc: true,
        ..ALL[0]
    },
    Pre {
        names: &["tekken"],
        splits: &[TEKKEN],
        whole_words: true,
        add_bos: true,
        ..ALL[0]
    },
    Pre {
        names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"],
        splits: &[GPT4O],
        ..ALL[0]
    },
    Pre {
        names: &["deepseek-coder"],
        splits: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            r"[一-龥ࠀ-一가-\x{D7FF}]+",
            r"\p{N}",
        ],
        ..ALL[0]
    },
    Pre {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        splits: &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3],
        ..ALL[0]
    },
];

/// The rule of this name.
pub(super) fn by_name(name: &str) -> Option<&'static Pre> {
    ALL.iter().find(|pre| pre.names.contains(&name))
}

/// All names, for the error that lists them.
pub(super) fn names() -> Vec<&'static str> {
    ALL.iter().flat_map(|pre| pre.names).copied().collect()
}
