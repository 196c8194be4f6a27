//! Sequences in slots: prompts in bounded chunks, decode steps several to a submit with one
//! readback. Everything a step needs (token, position, page table, sampling state) lies in device
//! buffers; between submits the host only reads the ring of produced tokens.

use std::sync::Arc;
use std::time::Instant;

use super::fitting::ring_bytes;
use super::generate::SampleOptions;
use super::pace::Pace;
use super::pages::Pages;
use super::recorder::{Job, Recorder};
use super::verify::Verifier;
use crate::gpu::{GpuProgram, Staging, StepTime};
use crate::kernel::params::Slot as SlotState;
use crate::plan::sizes::RING_LEN;
use crate::plan::{Batch, BufId, Sizes, Which};
use crate::{Error, Result};

/// Produced instead of a token where the logits are not numbers; the slot is no longer active then.
pub const NOT_FINITE: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Slot {
    taken: bool,
    /// Samples in every decode step.
    active: bool,
    /// Position of the next token to be fed.
    position: u32,
    /// Tokens sampled since the slot was activated.
    count: u32,
}

/// Drives a loaded program.
pub struct Scheduler {
    pub(super) program: Arc<GpuProgram>,
    pub(super) sizes: Sizes,
    pages: Pages,
    slots: Vec<Slot>,
    staging: Arc<[Staging; 2]>,
    flip: usize,
    recorder: Recorder,
    logits: Option<Staging>,
    pub(super) verifier: Option<Verifier>,
    /// Idles between submits, where there is a limit to hold.
    pub(super) pace: Option<Pace>,
    /// Tokens of each slot that nobody has asked for yet.
    kept: Vec<Vec<u32>>,
    /// How often the device was lost: what a sequence had in the cache of an earlier one is gone.
    pub(super) epoch: u32,
}

impl Scheduler {
    /// A scheduler with all slots free.
    pub fn new(program: Arc<GpuProgram>) -> Result<Scheduler> {
        let sizes = program.program.sizes;
        program.use_pages(0, true);
        let ring = ring_bytes(&sizes);
        let new = |name| Staging::new(&program.gpu, name, ring);
        let staging = Arc::new([new("ring copy 0")?, new("ring copy 1")?]);
        Ok(Scheduler {
            recorder: Recorder::start(program.clone(), staging.clone()),
            pages: Pages::new(sizes.slots, sizes.pages_per_slot),
            slots: vec![Slot::default(); sizes.slots as usize],
            sizes,
            program,
            staging,
            flip: 0,
            logits: None,
            verifier: None,
            pace: None,
            kept: vec![Vec::new(); sizes.slots as usize],
            epoch: 0,
        })
    }

    /// Takes the place of a scheduler whose device was lost: the same slots are taken, with nothing in them, and
    /// tokens that were produced are not forgotten.
    pub(super) fn adopt(&mut self, old: &mut Scheduler) {
        for (new, old) in self.slots.iter_mut().zip(&old.slots) {
            new.taken = old.taken;
        }
        self.kept = std::mem::take(&mut old.kept);
        self.pace = old.pace.take();
        self.epoch = old.epoch + 1;
    }

    /// The loaded program.
    pub fn program(&self) -> &Arc<GpuProgram> {
        &self.program
    }

    /// From now on compares every step with its CPU twin.
    pub fn verify(&mut self) -> Result<()> {
        self.verifier = Some(Verifier::new(&self.program)?);
        Ok(())
    }

    /// Steps compared so far, when verifying.
    pub fn verified(&self) -> Option<u64> {
        self.verifier.as_ref().map(|v| v.steps)
    }

    /// Milliseconds idled so far to hold a limit.
    pub(super) fn idled_ms(&self) -> f64 {
        self.pace.as_ref().map_or(0.0, |p| p.report().idle() * 1e3)
    }

    fn write(&mut self, id: BufId, byte: u64, words: &[u32]) {
        self.program.write(id, byte, words);
        if let Some(v) = &mut self.verifier {
            v.write(id, byte, words);
        }
    }

    /// Takes a free slot.
    pub fn acquire(&mut self) -> Result<u32> {
        let free = self
            .slots
            .iter()
            .position(|s| !s.taken)
            .ok_or(Error::NoSlot {
                slots: self.sizes.slots,
            })?;
        self.slots[free] = Slot {
            taken: true,
            ..Slot::default()
        };
        Ok(free as u32)
    }

    /// Gives a slot back.
    pub fn release(&mut self, slot: u32) {
        self.deactivate(slot);
        self.pages.release(slot, 0);
        self.slots[slot as usize] = Slot::default();
        self.kept[slot as usize].clear();
    }

    /// Keeps tokens (per slot) that steps for one sequence gave the others.
    pub(super) fn keep(&mut self, all: Vec<Vec<u32>>) {
        for (kept, ids) in self.kept.iter_mut().zip(all) {
            kept.extend(ids);
        }
    }

    /// The kept tokens of a slot.
    pub(super) fn take_kept(&mut self, slot: u32) -> Vec<u32> {
        std::mem::take(&mut self.kept[slot as usize])
    }

    /// Steps until the first active slot reaches the context's end; those that have are stopped.
    pub(super) fn room(&mut self) -> u32 {
        let context = self.sizes.context;
        for slot in 0..self.sizes.slots {
            if self.slots[slot as usize].position >= context {
                self.deactivate(slot);
            }
        }
        let active = self.slots.iter().filter(|s| s.active);
        active.map(|s| context - s.position).min().unwrap_or(0)
    }

    /// Feeds tokens to positions `start..` of a slot, chunk by chunk. `interrupted` is asked before
    /// each chunk, with the tokens fed so far; the tokens fed are returned.
    pub fn feed(
        &mut self,
        slot: u32,
        start: u32,
        ids: &[u32],
        interrupted: &dyn Fn(usize) -> bool,
    ) -> Result<usize> {
        let mut fed = 0;
        for chunk in ids.chunks(self.sizes.chunk as usize) {
            if interrupted(fed) {
                break;
            }
            self.chunk(slot, start + fed as u32, chunk, Which::Prefill)?;
            fed += chunk.len();
        }
        Ok(fed)
    }

    /// Feeds at most a chunk of tokens, samples the next one, of an answer that has `count` already, and makes
    /// the slot active.
    pub fn start(
        &mut self,
        slot: u32,
        start: u32,
        ids: &[u32],
        all: &[u32],
        sampling: &SampleOptions,
        count: u32,
    ) -> Result<u32> {
        let io = self.program.program.io;
        let position = start + ids.len() as u32;
        let state = SlotState {
            temp: sampling.temp,
            top_k: sampling.top_k,
            top_p: sampling.top_p,
            min_p: sampling.min_p,
            seed_lo: sampling.seed as u32,
            seed_hi: (sampling.seed >> 32) as u32,
            repeat_penalty: sampling.repeat_penalty,
            repeat_last_n: sampling.repeat_last_n,
            hist_len: all.len() as u32,
            count,
            ..SlotState::default()
        };
        self.write(
            io.slots,
            u64::from(slot) * 64,
            bytemuck::cast_slice(&[state]),
        );
        self.write(io.history, u64::from(slot * self.sizes.context) * 4, all);
        // The sampler moves the column on from the prompt's last position.
        self.write(
            io.cols,
            16 * (1 + u64::from(slot)),
            &[0, position - 1, slot, 1],
        );
        self.write(io.prompt_rows, 0, &[slot]);
        self.kept[slot as usize].clear();
        self.slots[slot as usize] = Slot {
            taken: true,
            active: true,
            position,
            count: count + 1,
        };
        let first = self.first(slot, start, ids, count);
        // Whatever went wrong, a slot that is not decoded must not stay active on the device.
        if !matches!(first, Ok(id) if id != NOT_FINITE) {
            self.deactivate(slot);
        }
        match first? {
            NOT_FINITE => Err(self.not_finite(slot, all)),
            id => Ok(id),
        }
    }

    /// Runs the last chunk of a prompt and reads the token sampled after it.
    fn first(&mut self, slot: u32, start: u32, ids: &[u32], count: u32) -> Result<u32> {
        self.chunk(slot, start, ids, Which::PrefillLast)?;
        let ring = &self.staging[self.flip];
        let p = &self.program;
        p.gpu
            .submit(p.record(Which::Decode, std::iter::empty(), |encoder| {
                ring.copy(p, p.program.io.ring, encoder)
            }));
        let at = slot * RING_LEN + count % RING_LEN;
        ring.read(&p.gpu, |words| words[at as usize])
    }

    /// Stops a slot from sampling; what it holds stays.
    pub fn deactivate(&mut self, slot: u32) {
        if std::mem::take(&mut self.slots[slot as usize].active) {
            self.write(
                self.program.program.io.cols,
                16 * (1 + u64::from(slot)),
                &[0, 0, slot, 0],
            );
        }
    }

    /// Makes room for `positions` of a slot, so that decoding up to there writes nothing.
    pub fn reserve(&mut self, slot: u32, positions: u32) {
        let row = slot * self.sizes.pages_per_slot;
        for (i, page) in self.pages.reserve(slot, positions.min(self.sizes.context)) {
            self.write(
                self.program.program.io.pages,
                u64::from(row + i) * 4,
                &[page],
            );
        }
    }

    /// [`Scheduler::reserve`], for work that is recorded next: what it reads and writes gets bound.
    fn occupy(&mut self, slot: u32, positions: u32) {
        self.reserve(slot, positions);
        let pages = self.pages.end(slot, positions);
        self.program.use_pages(pages, false);
    }

    /// Forgets what a slot holds behind its first `positions`.
    pub fn truncate(&mut self, slot: u32, positions: u32) {
        self.deactivate(slot);
        self.pages.release(slot, positions);
    }

    /// `steps` decode steps for every active slot, in one submit with one readback: the new tokens
    /// per slot (none for inactive ones; [`NOT_FINITE`] as the last where a slot's logits are not
    /// numbers, which is no fault of the others). `next` steps are recorded ahead while the device works.
    pub fn decode(&mut self, steps: u32, next: u32) -> Result<Vec<Vec<u32>>> {
        assert!(
            (1..=RING_LEN).contains(&steps),
            "the ring holds {RING_LEN} tokens"
        );
        if let Some(pace) = &mut self.pace {
            pace.rest()?;
        }
        let began = Instant::now();
        let live = |s: &&Slot| s.active;
        let longest = self
            .slots
            .iter()
            .filter(live)
            .map(|s| s.position)
            .max()
            .unwrap_or(0);
        assert!(
            longest + steps <= self.sizes.context,
            "decoding past the context"
        );
        let cols = self.sizes.slots;
        let batch = |kv_len: u32| Batch { cols, kv_len };
        let job = Job {
            steps,
            first: batch(longest + 1),
            staging: self.flip,
        };
        let ahead = Job {
            steps: next,
            first: batch(longest + steps + 1),
            staging: 1 - self.flip,
        };
        for slot in 0..self.sizes.slots {
            if self.slots[slot as usize].active {
                self.occupy(slot, self.slots[slot as usize].position + steps);
            }
        }
        if let Some(v) = &mut self.verifier {
            for i in 0..steps {
                v.run(&self.program, Which::Decode, batch(longest + 1 + i))?;
            }
            let (p, ring) = (&self.program, &self.staging[self.flip]);
            p.gpu
                .submit(p.record(Which::Decode, std::iter::empty(), |e| {
                    ring.copy(p, p.program.io.ring, e)
                }));
        } else {
            self.program.gpu.submit(self.recorder.take(job));
        }
        if self.verifier.is_none() && next > 0 && longest + steps + next <= self.sizes.context {
            self.recorder.ask(ahead);
        }
        let slots = &self.slots;
        let mut out = self.staging[self.flip].read(&self.program.gpu, |ring| {
            slots
                .iter()
                .enumerate()
                .map(|(s, slot)| {
                    let n = if slot.active { steps } else { 0 };
                    (0..n)
                        .map(|i| {
                            ring[s * RING_LEN as usize + ((slot.count + i) % RING_LEN) as usize]
                        })
                        .collect()
                })
                .collect::<Vec<Vec<u32>>>()
        })?;
        self.flip = 1 - self.flip;
        if let Some(pace) = &mut self.pace {
            let tokens = out.iter().map(Vec::len).sum::<usize>();
            pace.worked(began.elapsed(), steps, tokens as u32)?;
        }
        for (s, ids) in out.iter_mut().enumerate() {
            self.slots[s].position += ids.len() as u32;
            self.slots[s].count += ids.len() as u32;
            if let Some(bad) = ids.iter().position(|id| *id == NOT_FINITE) {
                ids.truncate(bad + 1);
                self.deactivate(s as u32);
            }
        }
        Ok(out)
    }

    /// One decode step with a timestamp around every dispatch; the device must have timestamps. The
    /// sampled tokens count as decoded but are not returned.
    pub fn profile(&mut self) -> Result<Vec<StepTime>> {
        let longest = self
            .slots
            .iter()
            .filter(|s| s.active)
            .map(|s| s.position)
            .max();
        let batch = Batch {
            cols: self.sizes.slots,
            kv_len: longest.unwrap_or(0) + 1,
        };
        assert!(
            batch.kv_len <= self.sizes.context,
            "decoding past the context"
        );
        for slot in 0..self.sizes.slots {
            if self.slots[slot as usize].active {
                self.occupy(slot, self.slots[slot as usize].position + 1);
                self.slots[slot as usize].position += 1;
                self.slots[slot as usize].count += 1;
            }
        }
        self.program.profile(Which::Decode, batch)
    }

    /// Feeds tokens and hands over the logits after each of them.
    pub fn logits(
        &mut self,
        slot: u32,
        start: u32,
        ids: &[u32],
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let (stride, n_vocab) = (self.sizes.logits_stride as usize, self.n_vocab());
        let chunk = self.sizes.logits_cols as usize;
        let p = self.program.clone();
        p.prepare(Which::Logits)?;
        if self.logits.is_none() {
            let bytes = (chunk * stride * 4) as u64;
            self.logits = Some(Staging::new(&p.gpu, "logits copy", bytes)?);
        }
        for (i, part) in ids.chunks(chunk).enumerate() {
            self.chunk(slot, start + (i * chunk) as u32, part, Which::Logits)?;
            let staging = self.logits.as_ref().unwrap_or_else(|| unreachable!());
            p.gpu
                .submit(p.record(Which::Decode, std::iter::empty(), |e| {
                    staging.copy(&p, p.program.io.logits, e)
                }));
            staging.read(&p.gpu, |words| {
                let all: &[f32] = bytemuck::cast_slice(words);
                for c in 0..part.len() {
                    each(i * chunk + c, &all[c * stride..][..n_vocab]);
                }
            })?;
        }
        Ok(())
    }

    fn n_vocab(&self) -> usize {
        let last = self
            .program
            .program
            .logits
            .tail
            .last()
            .unwrap_or_else(|| unreachable!("a tail has steps"));
        let m = last.params::<crate::kernel::params::MatVec>();
        (m.out_row + m.rows) as usize
    }

    /// Writes the columns of a chunk and runs it.
    pub(super) fn chunk(&mut self, slot: u32, start: u32, ids: &[u32], which: Which) -> Result<()> {
        let n = ids.len() as u32;
        assert!(
            n <= self.sizes.chunk.max(self.sizes.logits_cols),
            "more than a chunk"
        );
        assert!(
            n > 0 && start + n <= self.sizes.context,
            "a chunk outside the context"
        );
        if let Some(pace) = &mut self.pace {
            pace.rest()?;
        }
        let began = Instant::now();
        self.occupy(slot, start + n);
        let mut cols = vec![n, n - 1, 0, 0];
        for (i, id) in ids.iter().enumerate() {
            cols.extend([*id, start + i as u32, slot, 1]);
        }
        self.write(self.program.program.io.prompt_cols, 0, &cols);
        let batch = Batch {
            cols: n,
            kv_len: start + n,
        };
        let p = &self.program;
        if let Some(v) = &mut self.verifier {
            return v.run(p, which, batch);
        }
        p.gpu
            .submit(p.record(which, std::iter::once(batch), |_| ()));
        p.gpu.wait()?;
        match &mut self.pace {
            Some(pace) => pace.worked(began.elapsed(), 0, 0),
            None => Ok(()),
        }
    }
}
