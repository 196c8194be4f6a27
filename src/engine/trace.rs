//! Where numbers first stop being numbers. After the sampler's mark the sequence is fed once more: whole
//! chunks, as a prompt, until what a chunk leaves is not finite; then that chunk step by step, and what
//! each step wrote is read back. Takes as long as the prompt did and a little more, once.

use super::scheduler::Scheduler;
use crate::gpu::GpuProgram;
use crate::plan::{Batch, Init, Pool, Program, Step, Which};
use crate::reference::compare::{self, Kind};
use crate::{Error, Result};

/// The largest number that the KV cache can hold, f16.
const KV_MAX: f32 = 65504.0;

/// The first step whose results are not finite.
struct Found {
    /// The step's label, e.g. `blk.3.ffn_down`.
    pub label: String,
    /// Its shader.
    pub shader: String,
    /// The largest finite number among its inputs.
    pub largest: f32,
    /// Label of the first step that made a number of about that size.
    pub from: String,
}

impl Found {
    /// The error that tells it; `position`: tokens of the sequence.
    fn error(self, position: usize, verified: bool) -> Error {
        Error::NotFiniteIn {
            position,
            label: self.label,
            shader: self.shader,
            largest: self.largest,
            from: self.from,
            verified,
        }
    }
}

impl Scheduler {
    /// The error for a sequence of these tokens, all of which were fed, whose logits are not finite: it
    /// names the step where that begins. The sequence is fed again for it and must not be decoded further.
    pub fn not_finite(&mut self, slot: u32, tokens: &[u32]) -> Error {
        self.deactivate(slot);
        let verifier = self.seat.as_mut().and_then(|s| s.verifier.take());
        let (position, verified) = (tokens.len(), verifier.is_some());
        let found = self.trace(slot, tokens);
        if let Some(seat) = &mut self.seat {
            seat.verifier = verifier;
        }
        match found {
            Ok(Some(found)) => found.error(position, verified),
            Ok(None) => Error::NotFinite { position, verified },
            Err(e) => e,
        }
    }

    fn trace(&mut self, slot: u32, tokens: &[u32]) -> Result<Option<Found>> {
        let p = self.seat()?.program.clone();
        clear(&p);
        let size = self.sizes.chunk as usize;
        for (i, ids) in tokens.chunks(size).enumerate() {
            let start = i * size;
            let last = start + ids.len() == tokens.len();
            self.chunk(slot, start as u32, ids, Which::Prefill)?;
            if !last && finite(&p)? {
                continue;
            }
            let batch = Batch {
                cols: ids.len() as u32,
                kv_len: (start + ids.len()) as u32,
            };
            clear(&p);
            if let Some(found) = steps(&p, Which::PrefillLast, batch)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// Clears what steps pass on, so that what is found there later is this sequence's.
fn clear(p: &GpuProgram) {
    let io = p.program.io;
    let state = [
        io.cols,
        io.prompt_cols,
        io.prompt_rows,
        io.pages,
        io.slots,
        io.history,
        io.ring,
    ];
    for (id, b) in p.program.buffers.iter().enumerate() {
        let passed = b.pool == Pool::Scratch && matches!(b.init, Init::Zero);
        if passed && b.texture.is_none() && !state.contains(&id) {
            p.write(id, 0, &vec![0; (b.bytes / 4) as usize]);
        }
    }
}

/// Whether what the last layer left is finite.
fn finite(p: &GpuProgram) -> Result<bool> {
    let last = p.program.prefill.body.last();
    match last {
        Some(step) => Ok(written(p, step)?.is_some()),
        None => Ok(true),
    }
}

/// Runs a prompt chunk, whose columns are written, step by step up to the sampler; the first step that
/// makes what is no number.
fn steps(p: &GpuProgram, which: Which, batch: Batch) -> Result<Option<Found>> {
    let program: &Program = &p.program;
    let mut made: Vec<(&str, f32)> = Vec::new();
    for (i, step) in program.steps(which).enumerate() {
        if ["penalize", "logits_part", "sample"].contains(&step.shader.kernel) {
            break;
        }
        let Some(commands) = p.record_step(which, i, batch) else {
            continue;
        };
        p.gpu.submit(commands);
        let largest = written(p, step)?;
        if let Some(largest) = largest
            && fits_cache(p, step, batch)?
        {
            made.push((&step.label, largest));
            continue;
        }
        let largest = largest_input(p, step)?;
        let from = made.iter().find(|(_, made)| *made >= largest / 2.0);
        return Ok(Some(Found {
            label: step.label.clone(),
            shader: step.shader.to_string(),
            largest,
            from: from.map_or("the step itself", |(label, _)| label).into(),
        }));
    }
    Ok(None)
}

fn read(p: &GpuProgram, id: usize) -> Result<Vec<f32>> {
    Ok(p.read(id)?.into_iter().map(f32::from_bits).collect())
}

/// The largest number a step wrote; `None` if it wrote what is no finite number.
fn written(p: &GpuProgram, step: &Step) -> Result<Option<f32>> {
    let writes = step.kernel().writes;
    let mut largest = 0f32;
    for bind in step.binds.iter().filter(|b| writes.contains(&b.name)) {
        if compare::kind(step.shader.kernel, bind.name) != Kind::F32 {
            continue;
        }
        for v in read(p, bind.buf)? {
            if !v.is_finite() {
                return Ok(None);
            }
            largest = largest.max(v.abs());
        }
    }
    Ok(Some(largest))
}

/// Whether keys and values fit into the cache's f16. The cache itself holds other sequences, too, so it
/// is their source that is looked at (keys that are normed are small).
fn fits_cache(p: &GpuProgram, step: &Step, batch: Batch) -> Result<bool> {
    if step.shader.kernel != "rope_kv" {
        return Ok(true);
    }
    let params = step.params::<crate::kernel::params::RopeKv>();
    let Some(x) = step.binds.iter().find(|b| b.name == "x") else {
        return Ok(true);
    };
    let x = read(p, x.buf)?;
    let heads = |n: u32| (n * params.hd) as usize;
    let first = match params.has_norm {
        0 => heads(params.n_head),
        _ => heads(params.n_head + params.n_kv),
    };
    let columns = x.chunks_exact((params.x_stride) as usize);
    let mut cached = columns
        .take(batch.cols as usize)
        .flat_map(|c| &c[first..heads(params.n_head + 2 * params.n_kv)]);
    Ok(cached.all(|v| v.abs() <= KV_MAX))
}

/// The largest finite number among the activations that a step reads.
fn largest_input(p: &GpuProgram, step: &Step) -> Result<f32> {
    let mut largest = 0f32;
    for bind in &step.binds {
        let b = &p.program.buffers[bind.buf];
        let passed = b.pool == Pool::Scratch && matches!(b.init, Init::Zero);
        let written = step.kernel().writes.contains(&bind.name);
        let words = ["cols", "pages", "slots", "history", "ring"].contains(&bind.name);
        if passed && !written && !words && b.texture.is_none() {
            let numbers = read(p, bind.buf)?.into_iter().map(f32::abs);
            largest = numbers.filter(|v| v.is_finite()).fold(largest, f32::max);
        }
    }
    Ok(largest)
}
