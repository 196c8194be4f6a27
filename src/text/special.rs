//! Finds special tokens written out in a text, before anything else looks at it.

use super::vocab::{Kind, Vocab};
use std::collections::HashMap;

/// A stretch of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// The tokens that are found as they are written: user-defined ones always, control and unknown
/// ones when asked for.
pub(super) struct Specials {
    tokens: HashMap<Box<[u8]>, (u32, Kind)>,
    /// Lengths that occur, longest first, each with the first bytes of its tokens.
    lengths: Vec<(usize, [bool; 256])>,
}

impl Specials {
    pub(super) fn new(vocab: &Vocab) -> Specials {
        let mut tokens = HashMap::new();
        let mut lengths: HashMap<usize, [bool; 256]> = HashMap::new();
        for (id, text, kind) in vocab.iter() {
            let special = matches!(kind, Kind::User | Kind::Control | Kind::Unknown);
            // Only whole characters, so that a match never cuts one of the text's.
            let whole = !text.is_empty() && str::from_utf8(text).is_ok();
            if special && whole {
                tokens.entry(Box::from(text)).or_insert((id, kind));
                lengths.entry(text.len()).or_insert([false; 256])[text[0] as usize] = true;
            }
        }
        let mut lengths: Vec<_> = lengths.into_iter().collect();
        lengths.sort_by_key(|&(len, _)| std::cmp::Reverse(len));
        Specials { tokens, lengths }
    }

    /// Cuts `text` into special tokens and what lies between. Longer tokens are looked for first in
    /// the whole text, as llama.cpp does; of equal length the leftmost wins.
    pub(super) fn split<'t>(&self, text: &'t str, parse_special: bool) -> Vec<Part<'t>> {
        let bytes = text.as_bytes();
        let mut taken = vec![false; bytes.len()];
        let mut found = Vec::new();
        for (len, first) in &self.lengths {
            let mut at = 0;
            while at + len <= bytes.len() {
                let end = at + len;
                // A taken stretch is at least as long as this one: it covers one end if any.
                let free = first[bytes[at] as usize] && !taken[at] && !taken[end - 1];
                let token = free.then(|| self.tokens.get(&bytes[at..end])).flatten();
                match token {
                    Some(&(id, kind)) if parse_special || kind == Kind::User => {
                        taken[at..end].fill(true);
                        found.push((at, end, id));
                        at = end;
                    }
                    _ => at += 1,
                }
            }
        }
        found.sort_unstable();
        let mut parts = Vec::with_capacity(2 * found.len() + 1);
        let mut from = 0;
        for (at, end, id) in found {
            if from < at {
                parts.push(Part::Text(&text[from..at]));
            }
            parts.push(Part::Token(id));
            from = end;
        }
        if from < text.len() {
            parts.push(Part::Text(&text[from..]));
        }
        parts
    }
}
