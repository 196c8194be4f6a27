//! Byte-level BPE (`tokenizer.ggml.model` = `gpt2`), built from a file's tokens and merges with the
//! `tokenizers` crate.

use super::pre::Pre;
use super::vocab::Vocab;
use crate::gguf::Gguf;
use crate::{Error, Result};
use std::sync::LazyLock;
use tokenizers::models::bpe;
use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

/// Turns plain text into tokens.
pub(super) struct Bpe(Tokenizer);

impl Bpe {
    pub(super) fn new(g: &Gguf, vocab: &Vocab, pre: &Pre) -> Result<Bpe> {
        let fault = |what: tokenizers::Error| Error::TokenizerBuild {
            path: g.path().to_owned(),
            what: what.to_string(),
        };
        let build = |merges: &[(&str, &str)]| {
            let owned = merges.iter().map(|(a, b)| (a.to_string(), b.to_string()));
            bpe::BPE::builder()
                .vocab_and_merges(pieces(vocab), owned.collect::<bpe::Merges>())
                .ignore_merges(pre.whole_words)
                .build()
        };
        let mut merges = merges(g)?;
        let model = match build(&merges) {
            Ok(model) => model,
            // Asking for each merge first would take all files longer for the sake of a few.
            Err(_) => {
                keep_known(&mut merges, &pieces(vocab));
                build(&merges).map_err(fault)?
            }
        };
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for split in pre.splits {
            let pattern = SplitPattern::Regex(split.to_string());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
            steps.push(split.map_err(fault)?.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        if pre.nfc {
            tokenizer.with_normalizer(Some(NFC));
        }
        Ok(Bpe(tokenizer))
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<()> {
        let found = self.0.encode_fast(text, false);
        let found = found.map_err(|e| Error::Tokenize(e.to_string()))?;
        out.extend_from_slice(found.get_ids());
        Ok(())
    }
}

/// The texts that merging may lead to.
fn pieces(vocab: &Vocab) -> bpe::Vocab {
    let mut pieces = bpe::Vocab::with_capacity(vocab.len());
    for (id, text, kind) in vocab.iter() {
        // What is not UTF-8 cannot be the byte-level form of anything.
        if let (true, Ok(text)) = (kind.is_piece(), str::from_utf8(text)) {
            pieces.entry(text.to_owned()).or_insert(id);
        }
    }
    pieces
}

/// The file's merges, in order of rank.
fn merges(g: &Gguf) -> Result<Vec<(&str, &str)>> {
    let Some(lines) = g.strs("tokenizer.ggml.merges")? else {
        tracing::warn!("no tokenizer.ggml.merges: every byte becomes a token");
        return Ok(Vec::new());
    };
    let fault = |index, line| Error::VocabMerge {
        path: g.path().to_owned(),
        index,
        text: String::from_utf8_lossy(line).into_owned(),
    };
    let parts = lines.iter().enumerate().map(|(index, &line)| {
        let parts = str::from_utf8(line).ok().and_then(|line| {
            let (first, _) = line.char_indices().nth(1)?; // a part is at least one character
            let space = first + line[first..].find(' ')?;
            let parts = (&line[..space], &line[space + 1..]);
            (!parts.1.is_empty()).then_some(parts)
        });
        parts.ok_or_else(|| fault(index, line))
    });
    parts.collect()
}

/// Leaves out merges of or into something that is no token: they can never lead to one.
fn keep_known(merges: &mut Vec<(&str, &str)>, pieces: &bpe::Vocab) {
    let all = merges.len();
    let known = |s: &str| pieces.contains_key(s);
    merges.retain(|(a, b)| known(a) && known(b) && known(&format!("{a}{b}")));
    let left_out = all - merges.len();
    if left_out > 0 {
        tracing::warn!("{left_out} merges name texts that are not in the vocabulary: left out");
    }
}

/// The byte each character of a byte-level token stands for: itself where it is printable, else
/// counted up from U+0100 (source: GPT-2's `bytes_to_unicode`).
static BYTES: LazyLock<[Option<u8>; 0x144]> = LazyLock::new(|| {
    let mut map = [None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
            map[byte as usize] = Some(byte);
        } else {
            map[next] = Some(byte);
            next += 1;
        }
    }
    map
});

/// The bytes a byte-level token stands for; `None` when it is not in that form.
pub(super) fn bytes(text: &[u8]) -> Option<Vec<u8>> {
    let chars = str::from_utf8(text).ok()?.chars();
    chars
        .map(|c| BYTES.get(c as usize).copied().flatten())
        .collect()
}
