//! The vocabulary of a GGUF file, read and checked: texts, kinds and scores of the tokens, and the
//! ids with a role. Key names and numbers: GGUF's `tokenizer.ggml.*` metadata.

use crate::gguf::{Gguf, Value};
use crate::{Error, Result};
use std::hash::{BuildHasher, RandomState};

/// Kind of a token (source: GGUF's `tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Undefined,
    Normal,
    Unknown,
    Control,
    User,
    Unused,
    Byte,
}

impl Kind {
    fn from_id(id: u32) -> Kind {
        use Kind::*;
        let all = [Undefined, Normal, Unknown, Control, User, Unused, Byte];
        all.get(id as usize).copied().unwrap_or(Undefined)
    }

    /// Whether plain text may become this token by merging. Control tokens must be asked for, and
    /// bytes are a fallback, so neither ever comes out of merging.
    pub(super) fn is_piece(self) -> bool {
        !matches!(self, Kind::Control | Kind::Unknown | Kind::Byte)
    }
}

/// How text becomes tokens (source: `tokenizer.ggml.model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// `gpt2`: byte-level BPE with a list of merges.
    Bpe,
    /// `llama`: SentencePiece BPE, where scores order the merges.
    Spm,
}

/// Tokens and their roles.
pub(super) struct Vocab {
    pub(super) model: Model,
    text: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<Kind>,
    scores: Vec<f32>,
    ids: Ids,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) unknown: Option<u32>,
    end: Vec<u32>,
}

/// Tokens that end an answer whatever the metadata say: files often name one end token and use
/// another. The names are those of llama.cpp's list. User-defined tokens with these names count as
/// control tokens, as they do there (Gemma has an HTML `</s>`); ordinary pieces do not.
const END_NAMES: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
    "<eos>",
    "<｜end▁of▁sentence｜>",
    // File boundaries of code models: what follows is another document.
    "<|file_sep|>",
    "<|repo_name|>",
    "<|fim_pad|>",
    "<reponame>",
];

impl Vocab {
    pub(super) fn from_gguf(g: &Gguf) -> Result<Vocab> {
        let path = || g.path().to_owned();
        let missing = |key: &str| Error::KeyMissing {
            path: path(),
            key: key.into(),
        };
        let model = match g.need_str("tokenizer.ggml.model")? {
            "gpt2" => Model::Bpe,
            "llama" => Model::Spm,
            other => {
                let name = other.to_owned();
                return Err(Error::TokenizerModel { path: path(), name });
            }
        };
        let key = "tokenizer.ggml.tokens";
        let tokens = g.strs(key)?.unwrap_or_default();
        if tokens.is_empty() {
            return Err(missing(key));
        }
        let same_length = |key: &str, found: usize| match found == tokens.len() {
            true => Ok(()),
            false => Err(Error::VocabLength {
                path: path(),
                key: key.into(),
                found,
                tokens: tokens.len(),
            }),
        };
        let key = "tokenizer.ggml.token_type";
        let mut kinds: Vec<Kind> = match g.u32s(key)? {
            Some(ids) => ids.into_iter().map(Kind::from_id).collect(),
            None => vec![Kind::Normal; tokens.len()],
        };
        same_length(key, kinds.len())?;
        let key = "tokenizer.ggml.scores";
        let scores = match g.f32s(key)? {
            Some(scores) => scores,
            None if model == Model::Bpe => vec![0.0; tokens.len()],
            None => return Err(missing(key)),
        };
        same_length(key, scores.len())?;

        let mut text = Vec::with_capacity(tokens.iter().map(|t| t.len()).sum());
        let mut ends = Vec::with_capacity(tokens.len());
        for token in &tokens {
            text.extend_from_slice(token);
            ends.push(text.len());
        }
        let ids = Ids::new(tokens.len(), |id| tokens[id as usize]);

        let role = |key: &str, default: Option<u32>| special(g, key, default, tokens.len());
        // llama.cpp's defaults for a SentencePiece file that does not say; its default for gpt2
        // (11) is an ordinary word in most vocabularies, so there the absence means none.
        let spm = |id: u32| (model == Model::Spm).then_some(id);
        let eos = role("eos", spm(2))?;
        let mut end = Vec::new();
        for name in END_NAMES {
            let Some(id) = ids.get(name.as_bytes(), |id| tokens[id as usize]) else {
                continue;
            };
            let kind = &mut kinds[id as usize];
            if matches!(kind, Kind::Control | Kind::User) {
                *kind = Kind::Control;
                end.push(id);
            }
        }
        end.extend(eos);
        end.extend(role("eot", None)?);
        end.extend(role("eom", None)?);
        Ok(Vocab {
            bos: role("bos", spm(1))?,
            unknown: role("unknown", spm(0))?,
            model,
            text,
            ends,
            kinds,
            scores,
            ids,
            eos,
            end,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Text of a token as the file writes it.
    pub(super) fn text(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.text[start..end])
    }

    /// Kind of a token; `Undefined` past the end.
    pub(super) fn kind(&self, id: u32) -> Kind {
        let kind = self.kinds.get(id as usize).copied();
        kind.unwrap_or(Kind::Undefined)
    }

    /// The token written like this.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        self.ids.get(text, |id| self.text(id).unwrap_or_default())
    }

    /// The token that merging may make of this text, with its score.
    pub(super) fn piece(&self, text: &[u8]) -> Option<(u32, f32)> {
        let id = self.id(text).filter(|&id| self.kind(id).is_piece())?;
        Some((id, self.scores[id as usize]))
    }

    /// Whether a token ends an answer.
    pub(super) fn is_end(&self, id: u32) -> bool {
        self.end.contains(&id)
    }

    /// All tokens: id, text, kind.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], Kind)> {
        (0..self.len() as u32).map(|id| (id, self.text(id).unwrap_or_default(), self.kind(id)))
    }
}

/// Ids by text: a table of nothing but ids, since the texts lie in one piece already. A map with
/// a text of its own for each of 262144 tokens takes ten times the memory and longer to fill.
struct Ids {
    slots: Vec<u32>,
    hasher: RandomState,
}

const EMPTY: u32 = u32::MAX;

impl Ids {
    /// Of `n` texts; of equal ones the first wins.
    fn new<'t>(n: usize, text: impl Fn(u32) -> &'t [u8]) -> Ids {
        let mut ids = Ids {
            slots: vec![EMPTY; (2 * n).next_power_of_two().max(2)],
            hasher: RandomState::new(),
        };
        for id in 0..n as u32 {
            let slot = ids.slot(text(id), &text);
            if ids.slots[slot] == EMPTY {
                ids.slots[slot] = id;
            }
        }
        ids
    }

    /// Where a text is, or would be; at least half of the slots are empty.
    fn slot<'t>(&self, wanted: &[u8], text: impl Fn(u32) -> &'t [u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(wanted) as usize & mask;
        while self.slots[slot] != EMPTY && text(self.slots[slot]) != wanted {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn get<'t>(&self, wanted: &[u8], text: impl Fn(u32) -> &'t [u8]) -> Option<u32> {
        Some(self.slots[self.slot(wanted, text)]).filter(|id| *id != EMPTY)
    }
}

/// The id of a role. Files write nonsense here (an id past the end, -1 for none) that must not stop
/// a model that runs without it.
fn special(g: &Gguf, role: &str, default: Option<u32>, tokens: usize) -> Result<Option<u32>> {
    let key = format!("tokenizer.ggml.{role}_token_id");
    let id = match g.get(&key).map(Value::as_int) {
        None => return Ok(default.filter(|&id| (id as usize) < tokens)),
        Some(Some(id)) => id,
        Some(None) => return g.u32(&key), // not a number: the error names key and type
    };
    let found = u32::try_from(id).ok().filter(|&id| (id as usize) < tokens);
    if found.is_none() {
        tracing::warn!("{key} is {id}, the vocabulary has {tokens} tokens: ignored");
    }
    Ok(found)
}

/// Text of the token a file names for a role (`bos`, `eos`), if it is UTF-8; for chat templates.
pub(super) fn special_text(g: &Gguf, role: &str) -> Result<Option<String>> {
    let Some(tokens) = g.strs("tokenizer.ggml.tokens")? else {
        return Ok(None);
    };
    let default = match (g.str("tokenizer.ggml.model")?, role) {
        (Some("llama"), "bos") => Some(1),
        (Some("llama"), "eos") => Some(2),
        _ => None,
    };
    let id = special(g, role, default, tokens.len())?;
    Ok(id.and_then(|id| String::from_utf8(tokens[id as usize].to_vec()).ok()))
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_are_found_by_text_and_the_first_of_equals_wins() {
        let texts: Vec<String> = (0..1000).map(|i| format!("t{}", i % 900)).collect();
        let text = |id: u32| texts[id as usize].as_bytes();
        let ids = Ids::new(texts.len(), text);
        for i in 0..900u32 {
            assert_eq!(ids.get(format!("t{i}").as_bytes(), text), Some(i));
        }
        assert_eq!(ids.get(b"t900", text), None);
        assert_eq!(Ids::new(0, text).get(b"", text), None);
    }
}
