//! Finds special tokens written out in a text, before anything else looks at it.

use super::vocab::{Kind, Vocab};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// A stretch of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Text(&'t str),
    Token(u32),
}

/// Bytes of the longest special token that is looked for in a text; names are far shorter.
const LONGEST: usize = 1024;

/// The tokens that are found as they are written: user-defined ones always, control and unknown
/// ones when asked for.
pub(super) struct Specials {
    /// By length and rolling hash.
    tokens: HashMap<(usize, u64), Special>,
    /// Lengths that occur, longest first, each with the first bytes of its tokens.
    lengths: Vec<(usize, [bool; 256])>,
    /// Base of the rolling hash, another in each process: nobody can make texts that collide.
    base: u64,
}

struct Special {
    text: Box<[u8]>,
    id: u32,
    kind: Kind,
}

impl Specials {
    pub(super) fn new(vocab: &Vocab) -> Specials {
        let mut s = Specials {
            tokens: HashMap::new(),
            lengths: Vec::new(),
            base: RandomState::new().hash_one(0) % (PRIME - 512) + 256,
        };
        let mut lengths: HashMap<usize, [bool; 256]> = HashMap::new();
        for (id, text, kind) in vocab.iter() {
            let special = matches!(kind, Kind::User | Kind::Control | Kind::Unknown);
            // Only whole characters, so that a match never cuts one of the text's.
            let whole = !text.is_empty() && str::from_utf8(text).is_ok();
            if special && whole && text.len() <= LONGEST {
                let key = (text.len(), s.prefixes(text)[text.len()]);
                s.tokens.entry(key).or_insert_with(|| Special {
                    text: Box::from(text),
                    id,
                    kind,
                });
                lengths.entry(text.len()).or_insert([false; 256])[text[0] as usize] = true;
            }
        }
        s.lengths = lengths.into_iter().collect();
        s.lengths.sort_by_key(|&(len, _)| std::cmp::Reverse(len));
        s
    }

    /// Hashes of all beginnings of a text.
    fn prefixes(&self, text: &[u8]) -> Vec<u64> {
        let mut all = Vec::with_capacity(text.len() + 1);
        all.push(0);
        for &b in text {
            let last = all[all.len() - 1];
            all.push((times(last, self.base) + u64::from(b) + 1) % PRIME);
        }
        all
    }

    /// Cuts `text` into special tokens and what lies between. Longer tokens are looked for first in
    /// the whole text, as llama.cpp does; of equal length the leftmost wins. What is looked up is a
    /// hash that rolls along, so that long tokens cost no more than short ones.
    pub(super) fn split<'t>(&self, text: &'t str, parse_special: bool) -> Vec<Part<'t>> {
        let bytes = text.as_bytes();
        let hashes = match self.lengths.is_empty() {
            true => Vec::new(),
            false => self.prefixes(bytes),
        };
        let mut taken = vec![false; bytes.len()];
        let mut found = Vec::new();
        for &(len, ref first) in &self.lengths {
            let power = (0..len).fold(1, |power, _| times(power, self.base));
            let mut at = 0;
            while at + len <= bytes.len() {
                let end = at + len;
                // A taken stretch is at least as long as this one: it covers one end if any.
                let free = first[bytes[at] as usize] && !taken[at] && !taken[end - 1];
                let hash = || (hashes[end] + PRIME - times(hashes[at], power)) % PRIME;
                let token = free.then(|| self.tokens.get(&(len, hash()))).flatten();
                match token.filter(|t| *t.text == bytes[at..end]) {
                    Some(t) if parse_special || t.kind == Kind::User => {
                        taken[at..end].fill(true);
                        found.push((at, end, t.id));
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

/// A Mersenne prime: the hash is a number below it.
const PRIME: u64 = (1 << 61) - 1;

/// `a * b`, modulo the prime.
fn times(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    if folded >= PRIME {
        folded - PRIME
    } else {
        folded
    }
}
