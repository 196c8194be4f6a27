//! `--verify`: every step runs on the device and on its CPU twin, from the same buffers, and the
//! first that differs is named. Slow, and meant to be: it reads every result back.

use std::sync::Arc;

use crate::gpu::GpuProgram;
use crate::plan::{Batch, BufId, Pool, Which};
use crate::reference::{Runner, compare};
use crate::{Error, Result};

/// The CPU's copy of all buffers, kept equal to the device's.
pub struct Verifier {
    cpu: Runner,
    /// Steps compared so far.
    pub steps: u64,
}

impl Verifier {
    /// Copies what the device's buffers hold now.
    pub fn new(p: &GpuProgram) -> Result<Verifier> {
        let mut cpu = Runner::new(Arc::clone(&p.program));
        for (id, b) in p.program.buffers.iter().enumerate() {
            if b.pool == Pool::Scratch {
                cpu.write(id, 0, &p.read(id)?);
            }
        }
        Ok(Verifier { cpu, steps: 0 })
    }

    /// What the host writes to the device.
    pub fn write(&mut self, id: BufId, byte: u64, words: &[u32]) {
        self.cpu.write(id, byte, words);
    }

    /// Runs a plan on both, step by step.
    pub fn run(&mut self, p: &GpuProgram, which: Which, batch: Batch) -> Result<()> {
        let program = Arc::clone(&p.program);
        for (i, step) in program.steps(which).enumerate() {
            let Some(commands) = p.record_step(which, i, batch) else {
                continue;
            };
            p.gpu.submit(commands);
            self.cpu.step(step, batch);
            self.cpu.check()?;
            self.steps += 1;
            for bind in step
                .binds
                .iter()
                .filter(|b| step.kernel().writes.contains(&b.name))
            {
                let got = p.read(bind.buf)?;
                let kind = compare::kind(step.shader.kernel, bind.name);
                if let Some(d) = compare::compare(kind, &got, self.cpu.words(bind.buf)) {
                    return Err(Error::Verify {
                        plan: program.plan(which).0.name,
                        step: i,
                        label: step.label.clone(),
                        shader: step.shader.to_string(),
                        device: p.gpu.name.clone(),
                        finite: d.got.is_finite() && d.want.is_finite(),
                        detail: format!("{} ({}): {d}", bind.name, program.buffers[bind.buf].name),
                    });
                }
                // The next step starts from the device's result on both sides.
                self.cpu.write(bind.buf, 0, &got);
            }
        }
        Ok(())
    }
}
