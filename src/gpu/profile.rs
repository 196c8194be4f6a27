//! Where the time of a step goes: one plan run with a timestamp around every dispatch. Each step is
//! a pass of its own then, so the whole is slower than a normal run; the shares are what counts. And
//! how long a plan takes again and again, for the timing of kernels.

use std::time::Instant;

use super::Encoder;
use super::device::Gpu;
use super::program::GpuProgram;
use super::read::Staging;
use crate::Result;
use crate::plan::cost::Bytes;
use crate::plan::{Batch, Which};

/// Time of one step.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// Kernel name.
    pub kernel: &'static str,
    /// Label of the step: `blk.0.attn_q+k+v`.
    pub label: String,
    /// Nanoseconds between the timestamps around it.
    pub ns: f64,
    /// What it must read.
    pub bytes: Bytes,
}

impl Gpu {
    /// Timestamps work here.
    pub fn has_timestamps(&self) -> bool {
        self.device
            .features()
            .contains(wgpu::Features::TIMESTAMP_QUERY)
    }
}

impl GpuProgram {
    /// Runs a plan once and tells how long each step took. The device must have timestamps.
    pub fn profile(&self, which: Which, batch: Batch) -> Result<Vec<StepTime>> {
        let gpu = &self.gpu;
        let steps: Vec<_> = self.program.steps(which).collect();
        // A query set has a bounded size, so long plans go in pieces.
        const PIECE: usize = 1024;
        let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("step times"),
            ty: wgpu::QueryType::Timestamp,
            count: 2 * PIECE as u32,
        });
        let bytes = 16 * PIECE as u64;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = gpu.buffer("step times", bytes, usage)?;
        let period = f64::from(gpu.queue.get_timestamp_period());
        let mut out = Vec::with_capacity(steps.len());
        for start in (0..steps.len()).step_by(PIECE) {
            let piece = &steps[start..steps.len().min(start + PIECE)];
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            let mut ran = Vec::new();
            for (i, step) in piece.iter().enumerate() {
                let at = 2 * ran.len() as u32;
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(at),
                    end_of_pass_write_index: Some(at + 1),
                };
                if self.encode_step(&mut encoder, which, start + i, batch, Some(writes)) {
                    ran.push(step);
                }
            }
            let n = 2 * ran.len() as u32;
            encoder.resolve_query_set(&set, 0..n, &resolved, 0);
            let staging = Staging::new(gpu, "step times copy", bytes)?;
            staging.copy_from(&resolved, &mut encoder, bytes);
            gpu.submit(encoder.finish());
            let times = staging.read(gpu, |w| bytemuck::cast_slice::<u32, u64>(w).to_vec())?;
            out.extend(ran.iter().enumerate().map(|(i, step)| StepTime {
                kernel: step.shader.kernel,
                label: step.label.clone(),
                ns: times[2 * i + 1].saturating_sub(times[2 * i]) as f64 * period,
                bytes: self.program.bytes(step, which, batch),
            }));
        }
        Ok(out)
    }

    /// Seconds that a plan takes when it is run `times` times over in one pass: between timestamps around
    /// the pass, or, where the device has none, between its submit and the end of the wait for it.
    pub fn seconds(&self, which: Which, batch: Batch, times: usize) -> Result<f64> {
        let gpu = &self.gpu;
        let batches = || std::iter::repeat_n(batch, times);
        if !gpu.has_timestamps() {
            let commands = self.record(which, batches(), |_| ());
            let start = Instant::now();
            gpu.submit(commands);
            gpu.wait()?;
            return Ok(start.elapsed().as_secs_f64());
        }
        let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("pass time"),
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let resolved = gpu.buffer("pass time", 16, usage)?;
        let staging = Staging::new(gpu, "pass time copy", 16)?;
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &set,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        };
        let after = |encoder: &mut Encoder| {
            encoder.resolve_query_set(&set, 0..2, &resolved, 0);
            staging.copy_from(&resolved, encoder, 16);
        };
        gpu.submit(self.record_timed(which, batches(), after, Some(writes)));
        let ticks = staging.read(gpu, |w| bytemuck::cast_slice::<u32, u64>(w).to_vec())?;
        let period = f64::from(gpu.queue.get_timestamp_period());
        Ok(ticks[1].saturating_sub(ticks[0]) as f64 * period * 1e-9)
    }
}
