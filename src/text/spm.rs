//! SentencePiece BPE (`tokenizer.ggml.model` = `llama`): of all neighbours whose joined text is a
//! token, the pair with the highest score is merged, the leftmost of equals, until none is left.
//! What is no token then becomes its UTF-8 bytes. The `tokenizers` crate knows only ranked merges:
//! those cannot say that equal scores go by position, nor merge characters that are no tokens.

use super::vocab::Vocab;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The visible form of a space in a token.
pub(super) const SPACE: &str = "\u{2581}";

/// Turns plain text into tokens.
pub(super) struct Spm {
    /// The token of each byte.
    bytes: [Option<u32>; 256],
}

/// A stretch of the text: one character at first, growing by merges; merged ones are empty.
struct Symbol {
    start: usize,
    len: usize,
    prev: Option<usize>,
    next: Option<usize>,
}

/// A possible merge; out of date once one of its symbols has changed.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    len: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        let key = |p: &Pair| Reverse(p.left);
        self.score
            .total_cmp(&other.score)
            .then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

impl Spm {
    pub(super) fn new(vocab: &Vocab) -> Spm {
        let id = |byte: usize| vocab.id(format!("<0x{byte:02X}>").as_bytes());
        Spm {
            bytes: std::array::from_fn(|byte| id(byte).or(vocab.unknown)),
        }
    }

    /// Appends the tokens of `text`, after a space if `prefix`.
    pub(super) fn encode(&self, vocab: &Vocab, text: &str, prefix: bool, out: &mut Vec<u32>) {
        let text = text.replace(' ', SPACE);
        let text = if prefix { SPACE.to_owned() + &text } else { text };
        let count = text.chars().count();
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol {
                start,
                len: c.len_utf8(),
                prev: i.checked_sub(1),
                next: Some(i + 1).filter(|&n| n < count),
            })
            .collect();

        let mut queue = BinaryHeap::with_capacity(count);
        for right in 1..count {
            queue.extend(pair(vocab, &text, &symbols, Some(right - 1), Some(right)));
        }
        while let Some(Pair { left, right, len, .. }) = queue.pop() {
            let (a, b) = (&symbols[left], &symbols[right]);
            if a.len == 0 || b.len == 0 || a.len + b.len != len {
                continue;
            }
            let (prev, next) = (a.prev, b.next);
            symbols[left].len = len;
            symbols[left].next = next;
            symbols[right].len = 0;
            if let Some(next) = next {
                symbols[next].prev = Some(left);
            }
            queue.extend(pair(vocab, &text, &symbols, prev, Some(left)));
            queue.extend(pair(vocab, &text, &symbols, Some(left), next));
        }

        for symbol in symbols.iter().filter(|s| s.len > 0) {
            let piece = &text.as_bytes()[symbol.start..symbol.start + symbol.len];
            match vocab.piece(piece) {
                Some((id, _)) => out.push(id),
                None => out.extend(piece.iter().filter_map(|&b| self.bytes[b as usize])),
            }
        }
    }
}

/// The merge of two neighbours, if there is one.
fn pair(
    vocab: &Vocab,
    text: &str,
    symbols: &[Symbol],
    left: Option<usize>,
    right: Option<usize>,
) -> Option<Pair> {
    let (left, right) = (left?, right?);
    let (start, len) = (symbols[left].start, symbols[left].len + symbols[right].len);
    let (_, score) = vocab.piece(&text.as_bytes()[start..start + len])?;
    Some(Pair {
        score: score + 0.0, // -0 and 0 are equal
        left,
        right,
        len,
    })
}

/// The bytes a token stands for.
pub(super) fn bytes(text: &[u8]) -> Vec<u8> {
    let space = SPACE.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(space) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out
}

/// The byte a byte token (`<0x0A>`) stands for.
pub(super) fn byte(text: &[u8]) -> Option<u8> {
    let hex = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok()
}
