//! Results on their way to the host: staging buffers that are made at load and mapped in turn.

use super::Encoder;
use super::device::{Gpu, add};
use super::host::Moment;
use super::program::{GpuProgram, Resource};
use crate::Result;
use crate::plan::BufId;

/// A buffer the host can map.
pub struct Staging {
    buffer: wgpu::Buffer,
    bytes: u64,
}

impl Staging {
    /// Room for `bytes`.
    pub fn new(gpu: &Gpu, name: &str, bytes: u64) -> Result<Staging> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        Ok(Staging {
            buffer: gpu.buffer(name, bytes, usage)?,
            bytes,
        })
    }

    /// Records a copy of the first bytes of a program's buffer, as many as there is room for.
    pub fn copy(&self, p: &GpuProgram, from: BufId, encoder: &mut Encoder) {
        let bytes = p.program.buffers[from].bytes;
        self.copy_from(p.buffer(from), encoder, bytes);
    }

    pub(super) fn copy_from(&self, from: &wgpu::Buffer, encoder: &mut Encoder, bytes: u64) {
        encoder.copy_buffer_to_buffer(from, 0, &self.buffer, 0, bytes.min(self.bytes));
    }

    /// Waits for all submitted work and hands over the words.
    pub fn read<T>(&self, gpu: &Gpu, f: impl FnOnce(&[u32]) -> T) -> Result<T> {
        let (tell, told) = std::sync::mpsc::channel();
        self.buffer.map_async(wgpu::MapMode::Read, .., move |r| {
            let _ = tell.send(r);
        });
        add(&gpu.counts.readbacks, 1);
        if let Err(e) = gpu.wait() {
            self.buffer.unmap(); // takes the request back
            return Err(e);
        }
        let stuck = |reason: String| gpu.stuck(reason);
        told.recv()
            .map_err(|e| stuck(e.to_string()))?
            .map_err(|e| stuck(e.to_string()))?;
        let from = Moment::now();
        let out = {
            let view = self
                .buffer
                .get_mapped_range(..)
                .map_err(|e| stuck(e.to_string()))?;
            f(bytemuck::cast_slice(&view))
        };
        self.buffer.unmap();
        gpu.host.read_back(from);
        Ok(out)
    }
}

impl GpuProgram {
    /// Reads a whole buffer or layered texture; for tests and `--verify`, which may allocate.
    pub fn read(&self, id: BufId) -> Result<Vec<u32>> {
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let staging = match &self.resources[id] {
            Resource::Buffer(b) => {
                let staging = Staging::new(&self.gpu, "read", b.size())?;
                staging.copy(self, id, &mut encoder);
                staging
            }
            Resource::Texture { texture, shift, .. } => {
                let bytes = self.program.buffers[id].bytes;
                let staging = Staging::new(&self.gpu, "read", bytes)?;
                encoder.copy_texture_to_buffer(
                    texture.as_image_copy(),
                    wgpu::TexelCopyBufferInfo {
                        buffer: &staging.buffer,
                        layout: wgpu::TexelCopyBufferLayout {
                            offset: 0,
                            bytes_per_row: Some(16 << shift),
                            rows_per_image: Some(texture.height()),
                        },
                    },
                    texture.size(),
                );
                staging
            }
        };
        self.gpu.submit(encoder.finish());
        staging.read(&self.gpu, <[u32]>::to_vec)
    }
}
