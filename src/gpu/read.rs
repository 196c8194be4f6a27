//! Results on their way to the host: staging buffers that are made at load and mapped in turn.

use super::Encoder;
use super::device::{Gpu, add};
use super::program::{GpuProgram, Resource};
use crate::plan::BufId;
use crate::{Error, Result};

/// A buffer the host can map, with the part of a device buffer it is to be filled from.
pub struct Staging {
    buffer: wgpu::Buffer,
    from: BufId,
    bytes: u64,
}

impl Staging {
    /// Room for the first `bytes` of a buffer.
    pub fn new(gpu: &Gpu, name: &str, from: BufId, bytes: u64) -> Result<Staging> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Staging {
            buffer: gpu.buffer(name, bytes, usage)?,
            from,
            bytes,
        })
    }

    /// Records the copy.
    pub fn copy(&self, p: &GpuProgram, encoder: &mut Encoder, bytes: u64) {
        encoder.copy_buffer_to_buffer(
            p.buffer(self.from),
            0,
            &self.buffer,
            0,
            bytes.min(self.bytes),
        );
    }

    /// Waits for all submitted work and hands over the words.
    pub fn read<T>(&self, gpu: &Gpu, f: impl FnOnce(&[u32]) -> T) -> Result<T> {
        let (tell, told) = std::sync::mpsc::channel();
        self.buffer.map_async(wgpu::MapMode::Read, .., move |r| {
            let _ = tell.send(r);
        });
        add(&gpu.counts.readbacks, 1);
        gpu.wait()?;
        let stuck = |reason: String| Error::DeviceStuck {
            device: gpu.name.clone(),
            reason,
        };
        told.recv()
            .map_err(|e| stuck(e.to_string()))?
            .map_err(|e| stuck(e.to_string()))?;
        let out = {
            let view = self
                .buffer
                .get_mapped_range(..)
                .map_err(|e| stuck(e.to_string()))?;
            f(bytemuck::cast_slice(&view))
        };
        self.buffer.unmap();
        Ok(out)
    }
}

impl GpuProgram {
    /// Reads a whole buffer; for tests and `--verify`, which may allocate.
    pub fn read(&self, id: BufId) -> Result<Vec<u32>> {
        let bytes = match &self.resources[id] {
            Resource::Buffer(b) => b.size(),
            Resource::Texture { .. } => panic!("{} is a texture", self.program.buffers[id].name),
        };
        let staging = Staging::new(&self.gpu, "read", id, bytes)?;
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        staging.copy(self, &mut encoder, bytes);
        self.gpu.submit(encoder.finish());
        staging.read(&self.gpu, <[u32]>::to_vec)
    }
}
