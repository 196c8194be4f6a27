//! How fast the device copies: the yardstick for everything bound by memory.

use std::time::Instant;

use super::device::Gpu;
use crate::Result;

impl Gpu {
    /// Bytes read per second by a buffer-to-buffer copy of `bytes` (so written bytes are not
    /// counted), the best of five; the copy's own read is what a weight read is compared with.
    pub fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        let bytes = bytes.min(self.max_buffer).next_multiple_of(16);
        let a = self.buffer("copy source", bytes, wgpu::BufferUsages::COPY_SRC)?;
        let b = self.buffer("copy target", bytes, wgpu::BufferUsages::COPY_DST)?;
        let mut best = f64::MAX;
        for _ in 0..6 {
            let mut encoder = self
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            encoder.copy_buffer_to_buffer(&a, 0, &b, 0, bytes);
            let commands = encoder.finish();
            let start = Instant::now();
            self.submit(commands);
            self.wait()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(bytes as f64 / best)
    }
}
