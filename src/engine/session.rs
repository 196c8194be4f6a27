//! One sequence: the tokens it consists of, how many of them are in the KV cache, and the ways to
//! add to it.

use std::time::Instant;

use super::generate::{GenerateOptions, Generation};
use super::load::Engine;
use crate::{Error, Result};

/// A sequence in a slot of an engine. Dropping it frees the slot.
pub struct Session<'e> {
    pub(super) engine: &'e Engine,
    pub(super) slot: u32,
    pub(super) tokens: Vec<u32>,
    /// Tokens whose keys and values are in the cache.
    pub(super) cached: usize,
    /// Milliseconds spent on prompts since the last answer began.
    pub(super) prefill_ms: f64,
    /// Prompt tokens since the last answer began.
    pub(super) prompt_tokens: usize,
    /// Of the scheduler in whose cache they are.
    epoch: u32,
}

impl<'e> Session<'e> {
    pub(super) fn new(engine: &'e Engine, slot: u32) -> Session<'e> {
        Session {
            engine,
            slot,
            tokens: Vec::new(),
            cached: 0,
            prefill_ms: 0.0,
            prompt_tokens: 0,
            epoch: engine.scheduler.borrow().epoch,
        }
    }

    /// The tokens of the sequence.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Positions of the context.
    pub fn context(&self) -> u32 {
        self.engine.info().context
    }

    /// Appends tokens to the sequence. All but the last few go through the model now, the rest with
    /// the answer.
    pub fn prefill(&mut self, ids: &[u32]) -> Result<()> {
        self.prefill_while(ids, &|_| true).map(|_| ())
    }

    /// Like [`Session::prefill`], but stops between chunks when `go_on`, given the tokens fed so far,
    /// says so; whether it went
    /// through. What was not fed is dropped from the sequence.
    pub fn prefill_while(&mut self, ids: &[u32], go_on: &dyn Fn(usize) -> bool) -> Result<bool> {
        if ids.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let held = self.tokens.len();
        self.append(ids)?;
        self.current();
        let start = Instant::now();
        // At least one token is left for the step that samples.
        let last = (self.tokens.len() - self.cached - 1) % self.chunk() + 1;
        let n = self.tokens.len() - self.cached - last;
        let fed = self.feed(n, go_on);
        if fed.is_err() {
            // What was not fed is no part of the sequence.
            self.tokens.truncate(self.cached.max(held));
        }
        let fed = fed?;
        self.prompt_tokens += ids.len();
        self.prefill_ms += start.elapsed().as_secs_f64() * 1e3;
        if fed < n || !go_on(fed) {
            self.tokens.truncate(self.cached.max(held));
            return Ok(false);
        }
        Ok(true)
    }

    /// Keeps only the first `n` tokens.
    pub fn rewind(&mut self, n: usize) {
        self.tokens.truncate(n);
        self.cached = self.cached.min(n);
        self.engine
            .scheduler
            .borrow_mut()
            .truncate(self.slot, self.cached as u32);
    }

    /// Begins an answer.
    pub fn generate(&mut self, o: &GenerateOptions) -> Result<Generation<'_, 'e>> {
        Generation::begin(self, o)
    }

    /// Appends tokens and hands over the logits after each of them: `each(i, logits)` for `ids[i]`.
    pub fn logits(&mut self, ids: &[u32], each: &mut dyn FnMut(usize, &[f32])) -> Result<()> {
        self.current();
        let pending = self.tokens.len() - self.cached;
        self.feed(pending, &|_| true)?;
        self.append(ids)?;
        let start = self.cached as u32;
        self.engine
            .scheduler
            .borrow_mut()
            .logits(self.slot, start, ids, each)?;
        self.cached = self.tokens.len();
        Ok(())
    }

    /// The error for logits that are not finite after the sequence's last token: it names the step of the
    /// model where that begins. The sequence is fed again for it, and is of no use afterwards.
    pub fn not_finite(&mut self) -> Error {
        let mut scheduler = self.engine.scheduler.borrow_mut();
        scheduler.not_finite(self.slot, &self.tokens)
    }

    pub(super) fn chunk(&self) -> usize {
        self.engine.scheduler.borrow().sizes.chunk as usize
    }

    /// Whether the cache is still the one this sequence was fed to; if not, none of it is in there.
    pub(super) fn current(&mut self) -> bool {
        let epoch = self.engine.scheduler.borrow().epoch;
        let current = epoch == self.epoch;
        if !current {
            (self.epoch, self.cached) = (epoch, 0);
        }
        current
    }

    /// Feeds all but the last chunk of what is not in the cache, so that an answer can begin or go on.
    pub(super) fn restore(&mut self) -> Result<()> {
        self.current();
        let missing = self.tokens.len() - self.cached;
        let n = missing.saturating_sub(1) / self.chunk() * self.chunk();
        self.feed(n, &|_| true).map(|_| ())
    }

    /// Feeds the next `n` tokens that are not in the cache yet; if the device gets lost meanwhile, those before
    /// them once more, too.
    fn feed(&mut self, n: usize, go_on: &dyn Fn(usize) -> bool) -> Result<usize> {
        let (from, until) = (self.cached, self.cached + n);
        loop {
            let ids = &self.tokens[self.cached..until];
            let before = self.cached;
            let past = |fed: usize| (before + fed).saturating_sub(from);
            let fed = self.engine.scheduler.borrow_mut().feed(
                self.slot,
                self.cached as u32,
                ids,
                &|fed| !go_on(past(fed)),
            );
            match fed {
                Ok(fed) => {
                    self.cached += fed;
                    return Ok(self.cached.saturating_sub(from));
                }
                Err(e) => self.engine.recover(e)?,
            }
            self.current();
        }
    }

    /// Checks and appends.
    fn append(&mut self, ids: &[u32]) -> Result<()> {
        let n_vocab = self.engine.model.hyper.n_vocab;
        if let Some(id) = ids.iter().find(|id| **id >= n_vocab) {
            return Err(Error::TokenOutOfRange { id: *id, n_vocab });
        }
        let context = self.context();
        if self.tokens.len() + ids.len() > context as usize {
            return Err(Error::PromptTooLong {
                tokens: ids.len(),
                held: self.tokens.len(),
                context,
            });
        }
        self.tokens.extend(ids);
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.engine.scheduler.borrow_mut().release(self.slot);
    }
}
