//! A program on the device: its resources, and for every step a pipeline and a bind group, all made
//! once at load. Recording a batch only sets them in order; nothing is allocated after load.

use std::sync::Arc;

use super::device::{Gpu, add};
use super::host::Moment;
use super::pipelines::Pipelines;
use super::upload::upload;
use super::{Commands, Encoder};
use crate::kernel::choose::UNIFORM_X;
use crate::plan::{Batch, BufId, Buffer, Plan, Program, Step, Which};
use crate::{Error, Result};

/// A persistent resource.
pub enum Resource {
    /// A storage (and uniform) buffer.
    Buffer(wgpu::Buffer),
    /// Weights as an rgba32uint texture.
    Texture {
        /// The texture.
        texture: wgpu::Texture,
        /// Its only view.
        view: wgpu::TextureView,
        /// log2 of its line length.
        shift: u32,
    },
}

struct GpuStep {
    pipeline: usize,
    group: wgpu::BindGroup,
}

struct GpuPlan {
    body: Vec<GpuStep>,
    tail: Vec<GpuStep>,
}

/// A loaded program.
pub struct GpuProgram {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// The program it was made from.
    pub program: Arc<Program>,
    pub(super) resources: Vec<Resource>,
    pipelines: Pipelines,
    plans: [GpuPlan; 3],
}

/// Progress of a load.
pub enum Loading {
    /// Bytes of the file repacked and handed to the device.
    Weights(u64),
    /// Steps bound to their pipelines, of how many.
    Steps(u32, u32),
}

impl GpuProgram {
    /// Allocates, uploads, compiles, binds.
    pub fn load(
        gpu: Arc<Gpu>,
        program: Program,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<GpuProgram> {
        let resources = program
            .buffers
            .iter()
            .map(|b| resource(&gpu, b))
            .collect::<Result<Vec<_>>>()?;
        for (b, r) in program.buffers.iter().zip(&resources) {
            upload(&gpu, b, r, &mut |bytes| progress(Loading::Weights(bytes)))?;
        }
        let plans = [&program.decode, &program.prefill, &program.logits];
        let total = plans.iter().map(|p| p.dispatches()).sum::<usize>();
        let params = gpu.buffer(
            "params",
            total as u64 * 256,
            wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        )?;
        let mut maker = Maker {
            gpu: &gpu,
            resources: &resources,
            params,
            arena: Vec::with_capacity(total * 256),
            pipelines: Pipelines::default(),
        };
        let mut made = Vec::new();
        for plan in plans {
            made.push(maker.plan(plan, &mut |n| progress(Loading::Steps(n, total as u32)))?);
        }
        gpu.queue.write_buffer(&maker.params, 0, &maker.arena);
        let pipelines = maker.pipelines;
        tracing::debug!(pipelines = pipelines.len(), steps = total, "plans bound");
        let plans = made
            .try_into()
            .unwrap_or_else(|_| unreachable!("three plans"));
        gpu.queue.submit([]);
        gpu.wait()?;
        Ok(GpuProgram {
            gpu,
            program: Arc::new(program),
            resources,
            pipelines,
            plans,
        })
    }

    fn steps(&self, which: Which) -> impl Iterator<Item = (&Step, &GpuStep)> {
        let made = match which {
            Which::Decode => &self.plans[0],
            Which::Prefill | Which::PrefillLast => &self.plans[1],
            Which::Logits => &self.plans[2],
        };
        self.program
            .steps(which)
            .zip(made.body.iter().chain(&made.tail))
    }

    /// Records the steps of a plan for one batch after the other into one compute pass, then what
    /// `after` adds (copies for the host).
    pub fn record(
        &self,
        which: Which,
        batches: impl Iterator<Item = Batch>,
        after: impl FnOnce(&mut Encoder),
    ) -> Commands {
        let from = Moment::now();
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        let mut set = usize::MAX;
        let mut dispatches = 0;
        for batch in batches {
            for (step, made) in self.steps(which) {
                let Some([x, y, z]) = step.grid(batch) else {
                    continue;
                };
                if set != made.pipeline {
                    pass.set_pipeline(&self.pipelines[made.pipeline].pipeline);
                    set = made.pipeline;
                }
                pass.set_bind_group(0, &made.group, &[]);
                pass.dispatch_workgroups(x, y, z);
                dispatches += 1;
            }
        }
        drop(pass);
        after(&mut encoder);
        add(&self.gpu.counts.dispatches, dispatches);
        let commands = encoder.finish();
        self.gpu.host.recorded(from);
        commands
    }

    /// Records one step alone; `None` if it has nothing to do for this batch.
    pub fn record_step(&self, which: Which, index: usize, batch: Batch) -> Option<Commands> {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.encode_step(&mut encoder, which, index, batch, None)
            .then(|| encoder.finish())
    }

    /// One step as a pass of its own; whether it had anything to do.
    pub(super) fn encode_step(
        &self,
        encoder: &mut Encoder,
        which: Which,
        index: usize,
        batch: Batch,
        timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) -> bool {
        let Some((step, made)) = self.steps(which).nth(index) else {
            return false;
        };
        let Some([x, y, z]) = step.grid(batch) else {
            return false;
        };
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes,
        });
        pass.set_pipeline(&self.pipelines[made.pipeline].pipeline);
        pass.set_bind_group(0, &made.group, &[]);
        pass.dispatch_workgroups(x, y, z);
        drop(pass);
        add(&self.gpu.counts.dispatches, 1);
        true
    }

    /// Writes words into a buffer, before whatever is submitted next.
    pub fn write(&self, id: BufId, byte: u64, words: &[u32]) {
        match &self.resources[id] {
            Resource::Buffer(b) => {
                self.gpu
                    .queue
                    .write_buffer(b, byte, bytemuck::cast_slice(words))
            }
            Resource::Texture { .. } => unreachable!("textures are written at load only"),
        }
    }

    /// The wgpu buffer behind a number.
    pub(super) fn buffer(&self, id: BufId) -> &wgpu::Buffer {
        match &self.resources[id] {
            Resource::Buffer(b) => b,
            Resource::Texture { .. } => panic!("{} is a texture", self.program.buffers[id].name),
        }
    }
}

fn resource(gpu: &Gpu, b: &Buffer) -> Result<Resource> {
    if let Some(shift) = b.texture {
        let size = wgpu::Extent3d {
            width: 1 << shift,
            height: (b.bytes / (16 << shift)) as u32,
            depth_or_array_layers: 1,
        };
        let texture = gpu.allocate(&b.name, b.bytes, || {
            gpu.device.create_texture(&wgpu::TextureDescriptor {
                label: Some(&b.name),
                size,
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: wgpu::TextureFormat::Rgba32Uint,
                usage: wgpu::TextureUsages::STORAGE_BINDING | wgpu::TextureUsages::COPY_DST,
                view_formats: &[],
            })
        })?;
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        return Ok(Resource::Texture {
            texture,
            view,
            shift,
        });
    }
    if b.bytes > gpu.caps.max_storage {
        return Err(Error::BufferTooLarge {
            name: b.name.clone(),
            bytes: b.bytes,
            limit: gpu.caps.max_storage,
        });
    }
    let usage = wgpu::BufferUsages::STORAGE
        | wgpu::BufferUsages::UNIFORM
        | wgpu::BufferUsages::COPY_DST
        | wgpu::BufferUsages::COPY_SRC;
    Ok(Resource::Buffer(gpu.buffer(&b.name, b.bytes, usage)?))
}

/// Makes the steps of all plans; parameters of all steps share one uniform buffer.
struct Maker<'a> {
    gpu: &'a Gpu,
    resources: &'a [Resource],
    params: wgpu::Buffer,
    arena: Vec<u8>,
    pipelines: Pipelines,
}

impl Maker<'_> {
    fn plan(&mut self, plan: &Plan, tick: &mut dyn FnMut(u32)) -> Result<GpuPlan> {
        let mut list = |steps: &[Step]| {
            steps
                .iter()
                .map(|s| {
                    tick((self.arena.len() / 256) as u32);
                    self.step(s)
                })
                .collect::<Result<Vec<_>>>()
        };
        Ok(GpuPlan {
            body: list(&plan.body)?,
            tail: list(&plan.tail)?,
        })
    }

    fn step(&mut self, step: &Step) -> Result<GpuStep> {
        let at = self.arena.len() as u64;
        self.arena.extend(&step.params);
        self.arena.resize(self.arena.len().next_multiple_of(256), 0);
        let number = self.pipelines.get(self.gpu, &step.shader)?;
        let pipeline = &self.pipelines[number];
        let entries: Vec<wgpu::BindGroupEntry> = pipeline
            .bindings
            .iter()
            .map(|(name, binding, uniform)| {
                if name == "P" {
                    return entry(
                        *binding,
                        &self.params,
                        at,
                        Some(step.params.len().next_multiple_of(16) as u64),
                    );
                }
                let b = step.binds.iter().find(|b| b.name == name);
                let b = b.unwrap_or_else(|| panic!("{name} of {} is not bound", step.label));
                match &self.resources[b.buf] {
                    Resource::Buffer(buffer) => entry(
                        *binding,
                        buffer,
                        b.offset,
                        uniform.then_some(u64::from(UNIFORM_X)),
                    ),
                    Resource::Texture { view, .. } => wgpu::BindGroupEntry {
                        binding: *binding,
                        resource: wgpu::BindingResource::TextureView(view),
                    },
                }
            })
            .collect();
        let scope = self
            .gpu
            .device
            .push_error_scope(wgpu::ErrorFilter::Validation);
        let group = self
            .gpu
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(&step.label),
                layout: &pipeline.layout,
                entries: &entries,
            });
        if let Some(e) = pollster::block_on(scope.pop()) {
            return Err(Error::Bind {
                step: step.label.clone(),
                shader: step.shader.to_string(),
                reason: e.to_string(),
            });
        }
        add(&self.gpu.counts.bind_groups, 1);
        Ok(GpuStep {
            pipeline: number,
            group,
        })
    }
}

fn entry(
    binding: u32,
    buffer: &wgpu::Buffer,
    offset: u64,
    size: Option<u64>,
) -> wgpu::BindGroupEntry<'_> {
    let size = size.and_then(std::num::NonZeroU64::new);
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer,
            offset,
            size,
        }),
    }
}
