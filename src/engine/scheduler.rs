//! Sequences in slots: prompts in bounded chunks, decode steps several to a submit with one
//! readback. Everything a step needs (token, position, page table, sampling state) lies in device
//! buffers; between submits the host only reads the ring of produced tokens.

use std::sync::Arc;
use std::time::Instant;

use super::generate::SampleOptions;
use super::pace::Pace;
use super::pages::Pages;
use super::recorder::Job;
use super::seat::Seat;
use super::verify::Verifier;
use crate::gpu::{GpuProgram, StepTime};
use crate::kernel::params::Slot as SlotState;
use crate::plan::sizes::RING_LEN;
use crate::plan::{Batch, BufId, Io, Sizes, Which};
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
    /// What it has on the device; `None` between the loss of one and the next.
    pub(super) seat: Option<Seat>,
    /// Its name.
    device: String,
    pub(super) sizes: Sizes,
    io: Io,
    pages: Pages,
    slots: Vec<Slot>,
    /// Idles between submits, where there is a limit to hold.
    pub(super) pace: Option<Pace>,
    /// Tokens of each slot that nobody has asked for yet.
    kept: Vec<Vec<u32>>,
    /// How often all that sequences had in the cache was given up, as after a loss.
    pub(super) epoch: u32,
}

/// The error of work for a device that was lost and could not be opened again; it can be tried once more.
pub(super) fn gone(device: &str) -> Error {
    Error::DeviceLost {
        device: device.into(),
        reason: "and it was not there again".into(),
        times: 1,
    }
}

impl Scheduler {
    /// A scheduler with all slots free.
    pub fn new(program: Arc<GpuProgram>) -> Result<Scheduler> {
        let sizes = program.program.sizes;
        Ok(Scheduler {
            io: program.program.io,
            device: program.gpu.name.clone(),
            seat: Some(Seat::new(program)?),
            pages: Pages::new(sizes.slots, sizes.pages_per_slot),
            slots: vec![Slot::default(); sizes.slots as usize],
            sizes,
            pace: None,
            kept: vec![Vec::new(); sizes.slots as usize],
            epoch: 0,
        })
    }

    /// Gives back everything on the device, which is lost. The same slots stay taken, with nothing in them, and
    /// tokens that were produced are not forgotten.
    pub(super) fn leave(&mut self) {
        self.seat = None;
        self.give_up();
    }

    /// Goes on with all that a scheduler of the same context and slots has on the device.
    pub(super) fn take_seat(&mut self, new: Scheduler) {
        let same = |s: &Sizes| (s.context, s.slots);
        assert_eq!(same(&new.sizes), same(&self.sizes), "a load of other sizes");
        (self.seat, self.io) = (new.seat, new.io);
        // A plan around other variants may cut chunks and logits in another way.
        (self.sizes, self.pages) = (new.sizes, new.pages);
    }

    /// After an error in the middle of a step nobody knows how far the device went: no slot goes on from
    /// there, and every sequence is fed again before it does.
    fn give_up(&mut self) {
        (0..self.sizes.slots).for_each(|slot| self.deactivate(slot));
        self.epoch += 1;
    }

    /// The seat, for work whose failure is an error.
    pub(super) fn seat(&mut self) -> Result<&mut Seat> {
        self.seat.as_mut().ok_or_else(|| gone(&self.device))
    }

    /// The loaded program.
    ///
    /// # Panics
    /// Where the device was lost and could not be opened again.
    pub fn program(&self) -> &Arc<GpuProgram> {
        let seat = self.seat.as_ref().expect("a device");
        &seat.program
    }

    /// From now on compares every step with its CPU twin.
    pub fn verify(&mut self) -> Result<()> {
        let seat = self.seat()?;
        seat.verifier = Some(Verifier::new(&seat.program)?);
        Ok(())
    }

    /// Steps compared so far, when verifying.
    pub fn verified(&self) -> Option<u64> {
        let verifier = self.seat.as_ref()?.verifier.as_ref()?;
        Some(verifier.steps)
    }

    /// Milliseconds idled so far to hold a limit.
    pub(super) fn idled_ms(&self) -> f64 {
        self.pace.as_ref().map_or(0.0, |p| p.report().idle() * 1e3)
    }

    /// Writes words, if there is a device that could want them.
    fn write(&mut self, id: BufId, byte: u64, words: &[u32]) {
        if let Some(seat) = &mut self.seat {
            seat.write(id, byte, words);
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
        let io = self.io;
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
        let at = slot * RING_LEN + count % RING_LEN;
        let seat = self.seat()?;
        seat.copy_ring();
        seat.ring(|words| words[at as usize])
    }

    /// Stops a slot from sampling; what it holds stays.
    pub fn deactivate(&mut self, slot: u32) {
        if std::mem::take(&mut self.slots[slot as usize].active) {
            self.write(self.io.cols, 16 * (1 + u64::from(slot)), &[0, 0, slot, 0]);
        }
    }

    /// Makes room for `positions` of a slot, so that decoding up to there writes nothing.
    pub fn reserve(&mut self, slot: u32, positions: u32) {
        let row = slot * self.sizes.pages_per_slot;
        for (i, page) in self.pages.reserve(slot, positions.min(self.sizes.context)) {
            self.write(self.io.pages, u64::from(row + i) * 4, &[page]);
        }
    }

    /// [`Scheduler::reserve`], for work that is recorded next: what it reads and writes gets bound.
    fn occupy(&mut self, slot: u32, positions: u32) {
        self.reserve(slot, positions);
        let pages = self.pages.end(slot, positions);
        if let Some(seat) = &self.seat {
            seat.program.use_pages(pages, false);
        }
    }

    /// Forgets what a slot holds behind its first `positions`.
    pub fn truncate(&mut self, slot: u32, positions: u32) {
        self.deactivate(slot);
        self.pages.release(slot, positions);
    }

    /// `steps` decode steps for every active slot, in one submit with one readback: the new tokens
    /// per slot (none for inactive ones; [`NOT_FINITE`] as the last where a slot's logits are not
    /// numbers, which is no fault of the others). `next` steps are recorded ahead while the device works.
    ///
    /// # Errors
    /// One before the submit leaves everything as it is; one behind it ends what all slots have in the cache.
    pub fn decode(&mut self, steps: u32, next: u32) -> Result<Vec<Vec<u32>>> {
        assert!(
            (1..=RING_LEN).contains(&steps),
            "the ring holds {RING_LEN} tokens"
        );
        if let Some(pace) = &mut self.pace {
            pace.rest()?;
        }
        let began = Instant::now();
        let longest = self.longest();
        assert!(
            longest + steps <= self.sizes.context,
            "decoding past the context"
        );
        for slot in 0..self.sizes.slots {
            if self.slots[slot as usize].active {
                self.occupy(slot, self.slots[slot as usize].position + steps);
            }
        }
        let mut out = match self.replay(longest, steps, next) {
            Ok(out) => out,
            Err(e) => {
                self.give_up();
                return Err(e);
            }
        };
        for (s, ids) in out.iter_mut().enumerate() {
            self.slots[s].position += ids.len() as u32;
            self.slots[s].count += ids.len() as u32;
            if let Some(bad) = ids.iter().position(|id| *id == NOT_FINITE) {
                ids.truncate(bad + 1);
                self.deactivate(s as u32);
            }
        }
        if let Some(pace) = &mut self.pace {
            let tokens = out.iter().map(Vec::len).sum::<usize>();
            pace.worked(began.elapsed(), steps, tokens as u32);
        }
        Ok(out)
    }

    /// Position of the active slot that is furthest.
    fn longest(&self) -> u32 {
        let active = self.slots.iter().filter(|s| s.active);
        active.map(|s| s.position).max().unwrap_or(0)
    }

    /// Has the device run steps from position `longest` on, and reads what they gave each active slot.
    fn replay(&mut self, longest: u32, steps: u32, next: u32) -> Result<Vec<Vec<u32>>> {
        let cols = self.sizes.slots;
        let batch = |kv_len: u32| Batch { cols, kv_len };
        let fits = longest + steps + next <= self.sizes.context;
        let seat = self.seat.as_mut().ok_or_else(|| gone(&self.device))?;
        match &mut seat.verifier {
            Some(v) => {
                for i in 0..steps {
                    v.run(&seat.program, Which::Decode, batch(longest + 1 + i))?;
                }
                seat.copy_ring();
            }
            None => {
                let job = |steps, from, staging| Job {
                    steps,
                    first: batch(from + 1),
                    staging,
                };
                let commands = seat.recorder.take(job(steps, longest, seat.flip));
                seat.program.gpu.submit(commands);
                if next > 0 && fits {
                    seat.recorder.ask(job(next, longest + steps, 1 - seat.flip));
                }
            }
        }
        let slots = &self.slots;
        let own = |ring: &[u32], s: usize, slot: &Slot| -> Vec<u32> {
            let n = if slot.active { steps } else { 0 };
            let at = |i| s * RING_LEN as usize + ((slot.count + i) % RING_LEN) as usize;
            (0..n).map(|i| ring[at(i)]).collect()
        };
        let all = |ring: &[u32]| -> Vec<Vec<u32>> {
            let slots = slots.iter().enumerate();
            slots.map(|(s, slot)| own(ring, s, slot)).collect()
        };
        let out = seat.ring(all)?;
        seat.flip = 1 - seat.flip;
        Ok(out)
    }

    /// One decode step with a timestamp around every dispatch; the device must have timestamps. The
    /// sampled tokens count as decoded but are not returned.
    pub fn profile(&mut self) -> Result<Vec<StepTime>> {
        let batch = Batch {
            cols: self.sizes.slots,
            kv_len: self.longest() + 1,
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
        self.seat()?.program.profile(Which::Decode, batch)
    }

    /// Feeds tokens and hands over the logits after each of them.
    pub fn logits(
        &mut self,
        slot: u32,
        start: u32,
        ids: &[u32],
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<()> {
        let chunk = self.sizes.logits_cols as usize;
        self.seat()?.prepare_logits()?;
        for (i, part) in ids.chunks(chunk).enumerate() {
            self.chunk(slot, start + (i * chunk) as u32, part, Which::Logits)?;
            let first = i * chunk;
            let each = |c: usize, row: &[f32]| each(first + c, row);
            self.seat()?.logits(part.len(), each)?;
        }
        Ok(())
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
        self.write(self.io.prompt_cols, 0, &cols);
        let batch = Batch {
            cols: n,
            kv_len: start + n,
        };
        self.seat()?.run(which, batch)?;
        if let Some(pace) = &mut self.pace {
            pace.worked(began.elapsed(), 0, 0);
        }
        Ok(())
    }
}
