//! How long groups of steps take, to compare ways of computing the same: each group between two
//! timestamps, or in a submit of its own where the device has none.

use std::ops::Range;
use std::time::Instant;

use super::device::Gpu;
use super::program::GpuProgram;
use super::read::Staging;
use crate::Result;
use crate::plan::{Batch, Which};

impl GpuProgram {
    /// Nanoseconds that each of these groups of steps takes, run in this order.
    pub fn time(&self, which: Which, groups: &[Range<usize>], batch: Batch) -> Result<Vec<f64>> {
        if self.gpu.has_timestamps() {
            self.by_timestamps(which, groups, batch)
        } else {
            self.by_clock(which, groups, batch)
        }
    }

    fn by_timestamps(
        &self,
        which: Which,
        groups: &[Range<usize>],
        batch: Batch,
    ) -> Result<Vec<f64>> {
        let gpu: &Gpu = &self.gpu;
        let n = groups.len();
        let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("group times"),
            ty: wgpu::QueryType::Timestamp,
            count: 2 * n as u32,
        });
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let bytes = 16 * n as u64;
        let resolved = gpu.buffer("group times", bytes, usage)?;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (i, group) in groups.iter().enumerate() {
            for step in group.clone() {
                let (first, last) = (step == group.start, step + 1 == group.end);
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: first.then_some(2 * i as u32),
                    end_of_pass_write_index: last.then_some(2 * i as u32 + 1),
                };
                let writes = (first || last).then_some(writes);
                let any = self.encode_step(&mut encoder, which, step, batch, writes);
                assert!(any, "a step to be timed has nothing to do");
            }
        }
        encoder.resolve_query_set(&set, 0..2 * n as u32, &resolved, 0);
        let staging = Staging::new(gpu, "group times copy", bytes)?;
        staging.copy_from(&resolved, &mut encoder, bytes);
        gpu.submit(encoder.finish());
        let times = staging.read(gpu, |w| bytemuck::cast_slice::<u32, u64>(w).to_vec())?;
        let period = f64::from(gpu.queue.get_timestamp_period());
        let ns = |t: &[u64]| t[1].saturating_sub(t[0]) as f64 * period;
        Ok(times.chunks_exact(2).map(ns).collect())
    }

    fn by_clock(&self, which: Which, groups: &[Range<usize>], batch: Batch) -> Result<Vec<f64>> {
        let one = |group: &Range<usize>| {
            let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
            for step in group.clone() {
                self.encode_step(&mut encoder, which, step, batch, None);
            }
            let commands = encoder.finish();
            let start = Instant::now();
            self.gpu.submit(commands);
            self.gpu.wait()?;
            Ok(start.elapsed().as_nanos() as f64)
        };
        groups.iter().map(one).collect()
    }
}
