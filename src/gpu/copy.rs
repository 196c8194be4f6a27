//! How fast the device copies: the yardstick for everything bound by memory.

use std::time::Instant;

use super::device::Gpu;
use crate::Result;

/// A run this long is timed well, in seconds.
const LONG: f64 = 0.01;

impl Gpu {
    /// Bytes read per second by a buffer-to-buffer copy of `bytes` (so written bytes are not
    /// counted), the best of five; the copy's own read is what a weight read is compared with. Fast
    /// devices copy many times in a submit, so that the submit itself does not count.
    pub fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        let bytes = bytes.min(self.max_buffer).next_multiple_of(16);
        let a = self.buffer("copy source", bytes, wgpu::BufferUsages::COPY_SRC)?;
        let b = self.buffer("copy target", bytes, wgpu::BufferUsages::COPY_DST)?;
        let time = |times: u32| -> Result<f64> {
            let mut encoder = self
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for _ in 0..times {
                encoder.copy_buffer_to_buffer(&a, 0, &b, 0, bytes);
            }
            let commands = encoder.finish();
            let start = Instant::now();
            self.submit(commands);
            self.wait()?;
            Ok(start.elapsed().as_secs_f64())
        };
        time(1)?; // what is cleared before its first use
        let mut times = 1;
        while times < 1024 && time(times)? < LONG {
            times *= 2;
        }
        let mut best = f64::MAX;
        for _ in 0..5 {
            best = best.min(time(times)?);
        }
        Ok(bytes as f64 * f64::from(times) / best)
    }
}
