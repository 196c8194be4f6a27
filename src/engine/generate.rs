//! An answer as an iterator of pieces: several decode steps per submit, end tokens, stop strings,
//! whole UTF-8 characters, times.

use std::collections::VecDeque;
use std::time::Instant;

use super::scheduler::NOT_FINITE;
use super::session::Session;
use super::stop::StopStrings;
use crate::text::Utf8Stream;
use crate::{Error, Result};

/// How tokens are chosen. The defaults are llama.cpp's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleOptions {
    /// Temperature; 0 or less takes the likeliest token.
    pub temp: f32,
    /// Keep the k likeliest; 0: all.
    pub top_k: u32,
    /// Keep the smallest set of at least this probability; 1: all.
    pub top_p: f32,
    /// Keep tokens at least this likely against the likeliest; 0: all.
    pub min_p: f32,
    /// Seed of the draw: the same seed gives the same tokens.
    pub seed: u64,
    /// Divides the logits of recent tokens; 1: off.
    pub repeat_penalty: f32,
    /// How many recent tokens that is.
    pub repeat_last_n: u32,
}

impl Default for SampleOptions {
    fn default() -> Self {
        SampleOptions {
            temp: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            seed: 0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
        }
    }
}

impl SampleOptions {
    /// Refuses what would make logits or probabilities that are not numbers.
    fn check(&self) -> Result<()> {
        let wrong = |name, value: f32, ok: bool| match ok && !value.is_nan() {
            true => Ok(()),
            false => Err(Error::SampleOption { name, value }),
        };
        wrong("temp", self.temp, self.temp.is_finite())?;
        wrong("top_p", self.top_p, true)?;
        wrong("min_p", self.min_p, true)?;
        let penalty = self.repeat_penalty;
        wrong(
            "repeat_penalty",
            penalty,
            penalty.is_finite() && penalty > 0.0,
        )
    }
}

/// What ends an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An end token of the model.
    Eos,
    /// A stop string.
    Stop,
    /// As many tokens as asked for.
    Length,
    /// The end of the context.
    Context,
    /// [`Generation::cancel`].
    Cancelled,
}

impl Stop {
    /// Lower-case name, as in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Eos => "eos",
            Stop::Stop => "stop",
            Stop::Length => "length",
            Stop::Context => "context",
            Stop::Cancelled => "cancelled",
        }
    }
}

/// How to answer.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// Most tokens; `None`: until the model ends or the context does.
    pub max_tokens: Option<u32>,
    /// Sampling.
    pub sample: SampleOptions,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Go on after end tokens.
    pub ignore_eos: bool,
}

/// A bit of an answer: text that is complete so far and the tokens that became known with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Token ids, end tokens included.
    pub ids: Vec<u32>,
    /// Whole characters; empty while one is incomplete or a stop string may be beginning.
    pub text: String,
}

/// Times and counts of an answer.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Tokens of the prompt that went through the model for this answer.
    pub prompt_tokens: usize,
    /// Tokens produced.
    pub tokens: usize,
    /// Milliseconds for the prompt, up to the first token.
    pub prefill_ms: f64,
    /// Milliseconds from the prompt's first chunk to the first token in hand.
    pub ttft_ms: f64,
    /// Milliseconds from the first token to the last.
    pub decode_ms: f64,
    /// Milliseconds of it idled between submits, to hold a limit.
    pub idle_ms: f64,
    /// Milliseconds of each decode step (of a submit, shared out evenly), without what was idled.
    pub step_ms: Vec<f64>,
}

/// An answer in progress.
pub struct Generation<'s, 'e> {
    session: &'s mut Session<'e>,
    options: GenerateOptions,
    ready: VecDeque<u32>,
    utf8: Utf8Stream,
    stops: StopStrings,
    stop: Option<Stop>,
    ended: bool,
    stats: Stats,
}

impl<'s, 'e> Generation<'s, 'e> {
    pub(super) fn begin(session: &'s mut Session<'e>, o: &GenerateOptions) -> Result<Self> {
        if session.tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        o.sample.check()?;
        let mut stats = Stats {
            prompt_tokens: std::mem::take(&mut session.prompt_tokens),
            prefill_ms: std::mem::take(&mut session.prefill_ms),
            ..Stats::default()
        };
        let mut ready = VecDeque::new();
        let context = session.context() as usize;
        let stop = match o.max_tokens {
            Some(0) => Some(Stop::Length),
            _ if session.tokens.len() >= context => Some(Stop::Context),
            _ => None,
        };
        if stop.is_none() {
            let start = Instant::now();
            ready.push_back(first(session, o, 0)?);
            stats.prefill_ms += start.elapsed().as_secs_f64() * 1e3;
            stats.ttft_ms = stats.prefill_ms;
        }
        Ok(Generation {
            utf8: Utf8Stream::new(),
            stops: StopStrings::new(&o.stop),
            options: o.clone(),
            session,
            ready,
            stop,
            ended: stop.is_some(),
            stats,
        })
    }

    /// Why the answer ended; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Times and counts so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Ends the answer where it is.
    pub fn cancel(&mut self) {
        self.stop.get_or_insert(Stop::Cancelled);
    }

    /// Tokens that may still be produced, and what the last of them will mean.
    fn room(&self) -> (usize, Stop) {
        let context = self.session.context() as usize - self.session.tokens.len();
        match self.options.max_tokens {
            Some(n) if n as usize - self.stats.tokens <= context => {
                (n as usize - self.stats.tokens, Stop::Length)
            }
            _ => (context, Stop::Context),
        }
    }

    /// Decodes until `ready` holds something. If the device is lost, the sequence is fed again and the answer
    /// goes on where it was.
    fn decode(&mut self) -> Result<()> {
        let kept = {
            let mut scheduler = self.session.engine.scheduler.borrow_mut();
            // Another session's answer may have brought this one forward.
            scheduler.take_kept(self.session.slot)
        };
        self.ready.extend(kept);
        if !self.ready.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        if self.session.current() {
            match self.steps() {
                Err(e) => self.session.engine.recover(e)?,
                done => return done,
            }
        }
        let id = first(self.session, &self.options, self.stats.tokens as u32)?;
        self.ready.push_back(id);
        // For whoever waits for it this was one step.
        let ms = start.elapsed().as_secs_f64() * 1e3;
        self.stats.decode_ms += ms;
        self.stats.step_ms.push(ms);
        Ok(())
    }

    /// Decodes a few steps.
    fn steps(&mut self) -> Result<()> {
        let (room, _) = self.room();
        let n = self
            .session
            .engine
            .options
            .steps_per_submit
            .clamp(1, crate::plan::sizes::RING_LEN);
        let start = Instant::now();
        let slot = self.session.slot;
        let mut scheduler = self.session.engine.scheduler.borrow_mut();
        let n = scheduler.pace.as_ref().map_or(n, |p| n.min(p.most_steps()));
        let steps = n.min(room as u32).min(scheduler.room());
        let next = n.min(room as u32 - steps);
        let idled = scheduler.idled_ms();
        let mut all = scheduler.decode(steps, next)?;
        let ids = std::mem::take(&mut all[slot as usize]);
        scheduler.keep(all);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let idle = scheduler.idled_ms() - idled;
        self.stats.decode_ms += ms;
        self.stats.idle_ms += idle;
        let step = (ms - idle).max(0.0) / f64::from(steps);
        self.stats
            .step_ms
            .extend(std::iter::repeat_n(step, steps as usize));
        self.ready.extend(ids);
        Ok(())
    }

    /// Takes one produced token into the sequence and the text.
    fn accept(&mut self, id: u32) -> Piece {
        let (room, last) = self.room();
        let s = &mut *self.session;
        s.tokens.push(id);
        // Every token but the newest has been fed.
        s.cached = s.tokens.len() - 1;
        self.stats.tokens += 1;
        let tokenizer = s.engine.tokenizer();
        if tokenizer.is_end(id) && !self.options.ignore_eos {
            self.stop = Some(Stop::Eos);
            return Piece {
                ids: vec![id],
                text: String::new(),
            };
        }
        let bytes = if tokenizer.is_control(id) {
            None
        } else {
            tokenizer.token_bytes(id)
        };
        let text = self.utf8.push(bytes.as_deref().unwrap_or_default());
        let (text, found) = self.stops.push(&text);
        if found {
            self.stop = Some(Stop::Stop);
        } else if room == 1 {
            self.stop = Some(last);
        }
        Piece {
            ids: vec![id],
            text,
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.session
                .engine
                .scheduler
                .borrow_mut()
                .deactivate(self.session.slot);
        }
    }
}

/// Feeds what is left of a sequence and samples the next token of an answer that has `count` already.
fn first(session: &mut Session<'_>, o: &GenerateOptions, count: u32) -> Result<u32> {
    loop {
        session.restore()?;
        // The step that samples needs a token to feed: the last one again, if all are cached.
        session.cached = session.cached.min(session.tokens.len() - 1);
        let context = session.context() as usize;
        let room = o.max_tokens.map_or(context, |n| {
            context.min(session.tokens.len() + n.saturating_sub(count) as usize)
        });
        let mut scheduler = session.engine.scheduler.borrow_mut();
        scheduler.reserve(session.slot, room as u32);
        let started = scheduler.start(
            session.slot,
            session.cached as u32,
            &session.tokens[session.cached..],
            &session.tokens,
            &o.sample,
            count,
        );
        drop(scheduler);
        match started {
            Ok(id) => {
                session.cached = session.tokens.len();
                return Ok(id);
            }
            Err(e) => session.engine.recover(e)?,
        }
    }
}

impl Iterator for Generation<'_, '_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Result<Piece>> {
        if self.stop.is_some() {
            if self.ended {
                return None;
            }
            self.end();
            if self.stop == Some(Stop::Stop) {
                return None;
            }
            // What was held back: an incomplete character, the beginning of a stop string.
            let rest = self.utf8.flush();
            let (mut text, _) = self.stops.push(&rest);
            text.push_str(&self.stops.flush());
            return (!text.is_empty()).then(|| {
                Ok(Piece {
                    ids: Vec::new(),
                    text,
                })
            });
        }
        if self.ready.is_empty()
            && let Err(e) = self.decode()
        {
            self.stop = Some(Stop::Cancelled);
            self.end();
            return Some(Err(e));
        }
        let id = self.ready.pop_front()?;
        if id == NOT_FINITE {
            self.stop = Some(Stop::Cancelled);
            self.end();
            return Some(Err(self.session.not_finite()));
        }
        Some(Ok(self.accept(id)))
    }
}

impl Drop for Generation<'_, '_> {
    fn drop(&mut self) {
        self.end();
    }
}
