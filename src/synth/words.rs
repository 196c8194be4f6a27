//! Made-up vocabularies of real size: the bytes, the special tokens of the model's family, and words
//! of syllables with the merges that lead to them. Every loader takes them; no text comes out.

use crate::gguf::{Array, Value};

/// What a family's tokenizer has beside words (source: `tokenizer_config.json` of its models).
#[derive(Clone, Copy, Debug)]
pub(super) struct Vocab {
    /// Rule that splits words (`tokenizer.ggml.pre`) of byte-level BPE; `None`: SentencePiece.
    pre: Option<&'static str>,
    /// Id and text of special tokens.
    special: &'static [(u32, &'static str)],
    bos: u32,
    eos: u32,
    add_bos: bool,
}

pub(super) const LLAMA3: Vocab = Vocab {
    pre: Some("llama-bpe"),
    special: &[
        (128000, "<|begin_of_text|>"),
        (128001, "<|end_of_text|>"),
        (128006, "<|start_header_id|>"),
        (128007, "<|end_header_id|>"),
        (128009, "<|eot_id|>"),
    ],
    bos: 128000,
    eos: 128009,
    add_bos: true,
};

pub(super) const SMOLLM: Vocab = Vocab {
    pre: Some("smollm"),
    special: &[(0, "<|endoftext|>"), (1, "<|im_start|>"), (2, "<|im_end|>")],
    bos: 1,
    eos: 2,
    add_bos: false,
};

pub(super) const QWEN: Vocab = Vocab {
    pre: Some("qwen2"),
    special: &[
        (151643, "<|endoftext|>"),
        (151644, "<|im_start|>"),
        (151645, "<|im_end|>"),
    ],
    bos: 151643,
    eos: 151645,
    add_bos: false,
};

pub(super) const GEMMA: Vocab = Vocab {
    pre: None,
    special: &[
        (0, "<pad>"),
        (1, "<eos>"),
        (2, "<bos>"),
        (3, "<unk>"),
        (105, "<start_of_turn>"),
        (106, "<end_of_turn>"),
    ],
    bos: 2,
    eos: 1,
    add_bos: true,
};

pub(super) const MISTRAL: Vocab = Vocab {
    pre: None,
    special: &[(0, "<unk>"), (1, "<s>"), (2, "</s>")],
    bos: 1,
    eos: 2,
    add_bos: true,
};

/// Kinds of tokens (source: GGUF's `tokenizer.ggml.token_type`).
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

const CONSONANTS: &str = "bdfghjklmnprstvz";
const VOWELS: &str = "aeiou";

/// A word, and the length in bytes of the left one of the two tokens it is merged from.
struct Word {
    text: String,
    left: usize,
}

/// Words of one syllable, then of two, then of three, each also behind a `space`. A syllable alone is
/// merged from its letters, any other word from a shorter one (or the space) and a syllable.
fn words(space: &str) -> impl Iterator<Item = Word> {
    let (consonants, vowels) = (CONSONANTS.as_bytes(), VOWELS.as_bytes());
    let syllables = consonants.len() * vowels.len();
    (1..=3).flat_map(move |n| {
        (0..2 * syllables.pow(n)).map(move |i| {
            let mut text = if i % 2 == 0 { "" } else { space }.to_owned();
            for place in (0..n).rev() {
                let syllable = i / 2 / syllables.pow(place) % syllables;
                text.push(char::from(consonants[syllable / vowels.len()]));
                text.push(char::from(vowels[syllable % vowels.len()]));
            }
            let last = if text.len() == 2 { 1 } else { 2 };
            let left = text.len() - last;
            Word { text, left }
        })
    })
}

/// The visible character of each byte in byte-level BPE (source: GPT-2's `bytes_to_unicode`).
fn visible() -> impl Iterator<Item = char> {
    let mut next = 0x100;
    (0..=255u8).map(move |b| {
        if matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            char::from(b)
        } else {
            next += 1;
            char::from_u32(next - 1).expect("a character")
        }
    })
}

/// `tokenizer.ggml.*` for `n` tokens.
pub(super) fn metadata(v: &Vocab, n: u32) -> Vec<(String, Value)> {
    let bpe = v.pre.is_some();
    let space = if bpe { "\u{120}" } else { "\u{2581}" };
    let bytes: Vec<(String, i32)> = match bpe {
        true => visible().map(|c| (c.to_string(), NORMAL)).collect(),
        false => {
            let bytes = (0..=255u8).map(|b| (format!("<0x{b:02X}>"), BYTE));
            let letters = CONSONANTS.chars().chain(VOWELS.chars());
            let letters = letters.map(|c| c.to_string()).chain([space.to_owned()]);
            bytes.chain(letters.map(|l| (l, NORMAL))).collect()
        }
    };
    let (mut bytes, mut words) = (bytes.into_iter(), words(space));
    let (mut texts, mut kinds, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    let mut merges = Vec::new();
    for id in 0..n {
        let special = v.special.iter().find(|(at, _)| *at == id);
        let (text, kind) = if let Some((_, text)) = special {
            let kind = if *text == "<unk>" { UNKNOWN } else { CONTROL };
            (text.to_string(), kind)
        } else if let Some(byte) = bytes.next() {
            byte
        } else {
            let word = words.next().expect("more words than tokens");
            merges.push(format!(
                "{} {}",
                &word.text[..word.left],
                &word.text[word.left..]
            ));
            (word.text, NORMAL)
        };
        // Earlier words are merged first.
        scores.push(if kind == NORMAL { -(id as f32) } else { 0.0 });
        texts.push(text);
        kinds.push(kind);
    }
    let strs = |all: &[String]| Value::Array(Array::of_strs(all.iter().map(|s| s.as_bytes())));
    let text = |t: &str| Value::Str(t.as_bytes().to_vec());
    let mut meta = vec![
        ("model", text(if bpe { "gpt2" } else { "llama" })),
        ("pre", text(v.pre.unwrap_or("default"))),
        ("tokens", strs(&texts)),
        ("token_type", Value::Array(Array::of_i32(&kinds))),
    ];
    if bpe {
        meta.push(("merges", strs(&merges)));
    } else {
        meta.push(("scores", Value::Array(Array::of_f32(&scores))));
        let unknown = texts.iter().position(|t| t == "<unk>").unwrap_or(0);
        meta.push(("unknown_token_id", Value::U32(unknown as u32)));
        meta.push(("add_space_prefix", Value::Bool(false)));
    }
    meta.push(("bos_token_id", Value::U32(v.bos)));
    meta.push(("eos_token_id", Value::U32(v.eos)));
    meta.push(("add_bos_token", Value::Bool(v.add_bos)));
    meta.into_iter()
        .map(|(key, value)| (format!("tokenizer.ggml.{key}"), value))
        .collect()
}
