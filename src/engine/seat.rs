//! What a scheduler has on the device: the loaded program, the buffers its results come back through, the
//! recorder's thread. All of it goes with a device that is lost.

use std::sync::Arc;

use super::fitting::ring_bytes;
use super::recorder::Recorder;
use super::verify::Verifier;
use crate::Result;
use crate::gpu::{GpuProgram, Staging};
use crate::plan::{Batch, BufId, Which};

/// See the module.
pub(super) struct Seat {
    pub program: Arc<GpuProgram>,
    /// Take the ring of produced tokens in turn.
    staging: Arc<[Staging; 2]>,
    /// The one whose turn it is.
    pub flip: usize,
    pub recorder: Recorder,
    /// Takes the logits of a chunk, once somebody wants them.
    logits: Option<Staging>,
    pub verifier: Option<Verifier>,
}

impl Seat {
    pub fn new(program: Arc<GpuProgram>) -> Result<Seat> {
        program.use_pages(0, true);
        let ring = ring_bytes(&program.program.sizes);
        let new = |name| Staging::new(&program.gpu, name, ring);
        let staging = Arc::new([new("ring copy 0")?, new("ring copy 1")?]);
        Ok(Seat {
            recorder: Recorder::start(program.clone(), staging.clone()),
            program,
            staging,
            flip: 0,
            logits: None,
            verifier: None,
        })
    }

    pub fn write(&mut self, id: BufId, byte: u64, words: &[u32]) {
        self.program.write(id, byte, words);
        if let Some(v) = &mut self.verifier {
            v.write(id, byte, words);
        }
    }

    /// Runs a plan for a batch, and waits for it.
    pub fn run(&mut self, which: Which, batch: Batch) -> Result<()> {
        let p = &self.program;
        if let Some(v) = &mut self.verifier {
            return v.run(p, which, batch);
        }
        p.gpu
            .submit(p.record(which, std::iter::once(batch), |_| ()));
        p.gpu.wait()
    }

    /// Has the ring of produced tokens copied, on its own.
    pub fn copy_ring(&self) {
        self.copy(&self.staging[self.flip], self.program.program.io.ring);
    }

    fn copy(&self, to: &Staging, from: BufId) {
        let p = &self.program;
        let nothing = std::iter::empty();
        p.gpu
            .submit(p.record(Which::Decode, nothing, |e| to.copy(p, from, e)));
    }

    /// Waits for all work and hands over the copied ring.
    pub fn ring<T>(&self, f: impl FnOnce(&[u32]) -> T) -> Result<T> {
        self.staging[self.flip].read(&self.program.gpu, f)
    }

    /// Makes the plan for the logits of every token, and a buffer for them.
    pub fn prepare_logits(&mut self) -> Result<()> {
        self.program.prepare(Which::Logits)?;
        if self.logits.is_none() {
            let s = &self.program.program.sizes;
            let bytes = u64::from(s.logits_cols) * u64::from(s.logits_stride) * 4;
            self.logits = Some(Staging::new(&self.program.gpu, "logits copy", bytes)?);
        }
        Ok(())
    }

    /// Hands over the logits of the first columns of the chunk that ran last.
    pub fn logits(&self, columns: usize, mut each: impl FnMut(usize, &[f32])) -> Result<()> {
        let staging = self.logits.as_ref().expect("prepared");
        let p = &self.program;
        self.copy(staging, p.program.io.logits);
        let (stride, n_vocab) = (p.program.sizes.logits_stride as usize, self.n_vocab());
        staging.read(&p.gpu, |words| {
            let all: &[f32] = bytemuck::cast_slice(words);
            for c in 0..columns {
                each(c, &all[c * stride..][..n_vocab]);
            }
        })
    }

    fn n_vocab(&self) -> usize {
        let tail = &self.program.program.logits.tail;
        let last = tail.last().expect("a tail has steps");
        let m = last.params::<crate::kernel::params::MatVec>();
        (m.out_row + m.rows) as usize
    }
}
