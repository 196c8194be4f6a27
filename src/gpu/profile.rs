//! Where the time of a step goes: one plan run with a timestamp around every dispatch. Each step is
//! a pass of its own then, so the whole is slower than a normal run; the shares are what counts.

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
}
