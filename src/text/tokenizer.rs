//! The tokenizer of a GGUF file: special tokens first, then BPE or SentencePiece for the text
//! between them, then BOS and EOS as the file wishes.

use super::bpe::{self, Bpe};
use super::special::{Part, Specials};
use super::spm::{self, Spm};
use super::vocab::{Kind, Model, Vocab};
use super::{Utf8Stream, pre};
use crate::gguf::Gguf;
use crate::{Error, Result};
use std::borrow::Cow;

/// Text to token ids and back.
pub struct Tokenizer {
    vocab: Vocab,
    specials: Specials,
    merger: Merger,
    add_bos: bool,
    add_eos: bool,
    /// Text at the start and after a special token begins with a space (SentencePiece).
    space_prefix: bool,
}

enum Merger {
    Bpe(Box<Bpe>),
    Spm(Box<Spm>),
}

impl Tokenizer {
    /// Builds the tokenizer from `tokenizer.ggml.*`. Errors name the key or the merge at fault.
    pub fn from_gguf(g: &Gguf) -> Result<Tokenizer> {
        let vocab = Vocab::from_gguf(g)?;
        let (merger, add_bos, space_prefix) = match vocab.model {
            Model::Bpe => {
                let name = g.str("tokenizer.ggml.pre")?.unwrap_or_else(|| {
                    tracing::warn!("no tokenizer.ggml.pre: the file is old, using \"default\"");
                    "default"
                });
                let pre = pre::by_name(name).ok_or_else(|| Error::TokenizerPre {
                    path: g.path().to_owned(),
                    name: name.to_owned(),
                    known: pre::names().join(", "),
                })?;
                let bpe = Bpe::new(g, &vocab, pre)?;
                (Merger::Bpe(Box::new(bpe)), pre.add_bos, false)
            }
            Model::Spm => {
                let prefix = g.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                (Merger::Spm(Box::new(Spm::new(&vocab))), true, prefix)
            }
        };
        Ok(Tokenizer {
            add_bos: g.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(add_bos),
            add_eos: g.bool("tokenizer.ggml.add_eos_token")?.unwrap_or(false),
            specials: Specials::new(&vocab),
            vocab,
            merger,
            space_prefix,
        })
    }

    /// Token ids of `text`. Control tokens written in the text become tokens only if
    /// `parse_special`; `add_special` adds BOS and EOS where the file asks for them, unless the
    /// text already begins or ends with them.
    pub fn encode(&self, text: &str, parse_special: bool, add_special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut prefix = self.space_prefix;
        self.append(text, parse_special, &mut prefix, &mut ids)?;
        if add_special {
            self.begin(&mut ids);
            let eos = self.vocab.eos.filter(|&eos| ids.last() != Some(&eos));
            if self.add_eos {
                ids.extend(eos);
            }
        }
        Ok(ids)
    }

    /// Token ids of a text that the model is to continue: with BOS where the file asks for it, but
    /// never with EOS. The text comes in parts; no special token is seen across their seams.
    pub fn encode_prompt<'t>(
        &self,
        parts: impl IntoIterator<Item = &'t str>,
        parse_special: bool,
    ) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut prefix = self.space_prefix;
        for part in parts {
            self.append(part, parse_special, &mut prefix, &mut ids)?;
        }
        self.begin(&mut ids);
        Ok(ids)
    }

    /// Appends the ids of a text; `prefix`: its first words get the space that begins a text.
    fn append(
        &self,
        text: &str,
        parse_special: bool,
        prefix: &mut bool,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        for part in self.specials.split(text, parse_special) {
            match (part, &self.merger) {
                (Part::Token(id), _) => {
                    ids.push(id);
                    *prefix = self.space_prefix;
                }
                (Part::Text(text), Merger::Bpe(bpe)) => bpe.encode(text, ids)?,
                (Part::Text(text), Merger::Spm(spm)) => {
                    spm.encode(&self.vocab, text, *prefix, ids);
                    *prefix = false;
                }
            }
        }
        Ok(())
    }

    /// BOS in front, where the file asks for it and it is not there.
    fn begin(&self, ids: &mut Vec<u32>) {
        let bos = self.vocab.bos.filter(|&bos| ids.first() != Some(&bos));
        if let (true, Some(bos)) = (self.add_bos, bos) {
            ids.insert(0, bos);
        }
    }

    /// The bytes a token stands for, which need not be whole characters; a special token stands for
    /// its name. `None` past the end of the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        let text = self.vocab.text(id)?;
        Some(match (self.vocab.kind(id), self.vocab.model) {
            (Kind::Control | Kind::Unknown, _) => Cow::Borrowed(text),
            (Kind::Byte, _) => match spm::byte(text) {
                Some(byte) => Cow::Owned(vec![byte]),
                None => Cow::Borrowed(text),
            },
            (Kind::User, Model::Bpe) => Cow::Borrowed(text),
            (_, Model::Bpe) => bpe::bytes(text).map_or(Cow::Borrowed(text), Cow::Owned),
            (_, Model::Spm) => Cow::Owned(spm::bytes(text)),
        })
    }

    /// Text of tokens, with U+FFFD for what is not UTF-8; control tokens show only if `special`.
    /// The space that [`Tokenizer::encode`] puts before a text is taken off again.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let mut stream = Utf8Stream::new();
        let mut text = String::new();
        let mut prefix = self.space_prefix;
        for &id in ids {
            let control = self.is_control(id);
            if let Some(bytes) = self.token_bytes(id).filter(|_| special || !control) {
                let cut = prefix && !control && bytes.first() == Some(&b' ');
                text += &stream.push(&bytes[cut as usize..]);
            }
            prefix &= control;
        }
        text + &stream.flush()
    }

    /// Whether a token steers the model and is not part of its text.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id) == Kind::Control
    }

    /// Whether the text of a token is taken for the token where special tokens are parsed, though
    /// a user may mean the text: control tokens and the unknown token.
    pub fn is_special(&self, id: u32) -> bool {
        matches!(self.vocab.kind(id), Kind::Control | Kind::Unknown)
    }

    /// Whether a token ends an answer: EOS, end of turn, end of message.
    pub fn is_end(&self, id: u32) -> bool {
        self.vocab.is_end(id)
    }

    /// Token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.vocab.bos
    }

    /// Token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.vocab.eos
    }

    /// Number of tokens.
    pub fn n_vocab(&self) -> usize {
        self.vocab.len()
    }

    /// The token that the file writes like this.
    pub fn id_of(&self, piece: &str) -> Option<u32> {
        self.vocab.id(piece.as_bytes())
    }
}
