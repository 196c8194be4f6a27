//! A program on the device: its resources, and for every step a pipeline and a bind group, all made
//! once at load. Recording a batch only sets them in order; nothing is allocated after load.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::device::{Gpu, add};
use super::fault::Spoil;
use super::host::Moment;
use super::make::{Maker, rungs};
use super::repeat;
use super::upload::{self, Event, Upload};
use super::{Commands, Encoder};
use crate::plan::{Batch, BufId, Buffer, Program, Step, Which};
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

/// A step ready to be recorded.
pub struct GpuStep {
    pub pipeline: wgpu::ComputePipeline,
    /// The same number: the same pipeline, within a plan.
    pub number: usize,
    /// One bind group; as many as there are [`rungs`] where it binds the KV cache.
    pub groups: Vec<wgpu::BindGroup>,
    /// A planted fault.
    pub spoil: Option<Spoil>,
}

/// The steps of a plan.
pub struct GpuPlan {
    pub body: Vec<GpuStep>,
    pub tail: Vec<GpuStep>,
}

/// A loaded program.
pub struct GpuProgram {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// The program it was made from.
    pub program: Arc<Program>,
    pub(super) resources: Vec<Resource>,
    decode: GpuPlan,
    prefill: GpuPlan,
    /// Made on first use ([`GpuProgram::prepare`]): few runs want the logits of every token.
    logits: OnceLock<GpuPlan>,
    rung: AtomicUsize,
    /// How long the load took.
    pub times: LoadTimes,
}

/// Progress of a load.
pub enum Loading {
    /// Bytes of the file repacked and handed to the device.
    Weights(u64),
    /// Steps bound to their pipelines, of how many.
    Steps(u32, u32),
}

/// Milliseconds of the parts of a load. Weights and pipelines are made side by side.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadTimes {
    /// Until all weights were repacked and on the device.
    pub weights_ms: f64,
    /// Until all pipelines of decoding and prompts were made and all steps bound.
    pub compile_ms: f64,
    /// The wait for the device to finish the first dispatch of every pipeline, after both of these.
    pub warm_up_ms: f64,
}

/// Ends the workers of an upload.
struct EndOf<'a, 'b>(&'a Upload<'b>, usize);

impl Drop for EndOf<'_, '_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl GpuProgram {
    /// Allocates, uploads, compiles, binds.
    pub fn load(
        gpu: Arc<Gpu>,
        program: Program,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<GpuProgram> {
        Self::load_with(gpu, program, false, progress)
    }

    /// [`GpuProgram::load`], and a first dispatch of every pipeline that decoding and prompts use:
    /// many drivers compile only then. It works on no column, so it changes nothing.
    pub fn load_warm(
        gpu: Arc<Gpu>,
        program: Program,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<GpuProgram> {
        Self::load_with(gpu, program, true, progress)
    }

    fn load_with(
        gpu: Arc<Gpu>,
        program: Program,
        warm: bool,
        progress: &mut dyn FnMut(Loading),
    ) -> Result<GpuProgram> {
        let start = Instant::now();
        let ms = || start.elapsed().as_secs_f64() * 1e3;
        let mut times = LoadTimes::default();
        let resources = program
            .buffers
            .iter()
            .map(|b| resource(&gpu, b))
            .collect::<Result<Vec<_>>>()?;
        upload::constants(&gpu, &program.buffers, &resources);
        repeat::upload(&gpu, &program.buffers, &resources, &mut |bytes| {
            progress(Loading::Weights(bytes))
        })?;
        let plans = vec![&program.decode, &program.prefill];
        let maker = Maker::new(&gpu, &program, plans, &resources)?;
        let workers = upload::workers();
        let pieces = upload::pieces(&program.buffers);
        let upload = Upload::new(&gpu, &resources, pieces, workers);
        // This thread hands pieces to the device and tells the progress; the others repack, and one
        // makes pipelines, on all cores as well.
        let plans = std::thread::scope(|s| {
            let (tell, told) = std::sync::mpsc::channel();
            for _ in 0..workers {
                let (upload, tell) = (&upload, tell.clone());
                s.spawn(move || upload.work(&tell));
            }
            let compiling = s.spawn(|| {
                let tell = tell; // gone with this thread
                let made = maker.make(warm, &tell);
                let _ = tell.send(Event::Compiled(made.is_ok()));
                made.map(|made| (made, ms()))
            });
            // Also if `progress` panics: nobody must be left waiting.
            let end = EndOf(&upload, workers);
            let uploaded = upload.run(&told, progress);
            times.weights_ms = ms();
            drop(end);
            maker.stop.store(uploaded.is_err(), Ordering::Relaxed);
            if !uploaded? {
                for event in told {
                    match event {
                        Event::Bound(n, of) => progress(Loading::Steps(n, of)),
                        Event::Compiled(_) => break,
                        _ => (),
                    }
                }
            }
            let made = compiling
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e));
            made.map(|(made, ms)| {
                times.compile_ms = ms;
                made
            })
        })?;
        let mut plans = plans.into_iter();
        let (Some(decode), Some(prefill)) = (plans.next(), plans.next()) else {
            unreachable!("a plan for each plan");
        };
        let before = ms();
        gpu.queue.submit([]);
        gpu.wait()?;
        times.warm_up_ms = ms() - before;
        gpu.cache.save();
        Ok(GpuProgram {
            gpu,
            program: Arc::new(program),
            resources,
            decode,
            prefill,
            logits: OnceLock::new(),
            rung: AtomicUsize::new(usize::MAX),
            times,
        })
    }

    /// Makes what is not made at load: the plan for the logits of every token.
    pub fn prepare(&self, which: Which) -> Result<()> {
        if which != Which::Logits || self.logits.get().is_some() {
            return Ok(());
        }
        let plans = vec![&self.program.logits];
        let maker = Maker::new(&self.gpu, &self.program, plans, &self.resources)?;
        let made = maker.make(false, &std::sync::mpsc::channel().0)?;
        let plan = made.into_iter().next();
        let plan = plan.unwrap_or_else(|| unreachable!("a plan for a plan"));
        let _ = self.logits.set(plan); // whoever was first has the same
        self.gpu.cache.save();
        Ok(())
    }

    /// From now on commands are recorded for a KV cache of which only the first `pages` are in use, or
    /// those that were before. What is bound is cleared before its first use, and a page that is
    /// bound by nothing takes no memory on devices that share it with the host.
    pub fn use_pages(&self, pages: u32, afresh: bool) {
        let all = rungs(&self.program.sizes);
        let rung = all
            .iter()
            .position(|n| *n >= pages)
            .unwrap_or(all.len() - 1);
        if afresh {
            self.rung.store(rung, Ordering::Relaxed);
        } else {
            self.rung.fetch_max(rung, Ordering::Relaxed);
        }
    }

    /// Which part of the KV cache commands are recorded for; commands for another cannot be used.
    pub fn rung(&self) -> usize {
        self.rung.load(Ordering::Relaxed)
    }

    /// Spoils what a step has just done, where a fault is planted and its turn has come.
    fn spoil(&self, pass: &mut wgpu::ComputePass<'_>, made: &GpuStep) -> bool {
        let (Some(spoil), Some(fault)) = (&made.spoil, &self.gpu.fault) else {
            return false;
        };
        match spoil {
            Spoil::Wrong { pipeline, group } if fault.strikes() => {
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, group, &[]);
                pass.dispatch_workgroups(1, 1, 1);
            }
            Spoil::Wrong { .. } => (),
            Spoil::Rejected => self.gpu.refuse(),
        }
        true
    }

    fn group<'a>(&self, made: &'a GpuStep) -> &'a wgpu::BindGroup {
        &made.groups[self.rung().min(made.groups.len() - 1)]
    }

    fn steps(&self, which: Which) -> impl Iterator<Item = (&Step, &GpuStep)> {
        let made = match which {
            Which::Decode => &self.decode,
            Which::Prefill | Which::PrefillLast => &self.prefill,
            Which::Logits => self.logits.get().expect("logits are prepared first"),
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
        self.record_timed(which, batches, after, None)
    }

    /// [`GpuProgram::record`], with timestamps around the pass.
    pub(super) fn record_timed(
        &self,
        which: Which,
        batches: impl Iterator<Item = Batch>,
        after: impl FnOnce(&mut Encoder),
        timestamp_writes: Option<wgpu::ComputePassTimestampWrites<'_>>,
    ) -> Commands {
        let from = Moment::now();
        let mut encoder = self
            .gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes,
        });
        let mut set = usize::MAX;
        let mut dispatches = 0;
        for batch in batches {
            for (step, made) in self.steps(which) {
                let Some([x, y, z]) = step.grid(batch) else {
                    continue;
                };
                if set != made.number {
                    pass.set_pipeline(&made.pipeline);
                    set = made.number;
                }
                pass.set_bind_group(0, self.group(made), &[]);
                pass.dispatch_workgroups(x, y, z);
                dispatches += 1;
                if self.spoil(&mut pass, made) {
                    set = usize::MAX;
                }
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
        pass.set_pipeline(&made.pipeline);
        pass.set_bind_group(0, self.group(made), &[]);
        pass.dispatch_workgroups(x, y, z);
        self.spoil(&mut pass, made);
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

/// A view of the first `n` of all `layers`; 0 layers: of a plain texture.
pub(super) fn layers_view(texture: &wgpu::Texture, n: u32, layers: u32) -> wgpu::TextureView {
    texture.create_view(&wgpu::TextureViewDescriptor {
        dimension: Some(match layers {
            0 => wgpu::TextureViewDimension::D2,
            _ => wgpu::TextureViewDimension::D2Array,
        }),
        array_layer_count: (layers > 0).then_some(n),
        ..Default::default()
    })
}

fn resource(gpu: &Gpu, b: &Buffer) -> Result<Resource> {
    if let Some(shift) = b.texture {
        let layers = b.layers.max(1);
        let size = wgpu::Extent3d {
            width: 1 << shift,
            height: (b.bytes / (16 << shift)) as u32 / layers,
            depth_or_array_layers: layers,
        };
        let bytes = 16 * u64::from(size.width) * u64::from(size.height) * u64::from(layers);
        let texture = gpu.allocate(b.pool, &b.name, bytes, || {
            gpu.device.create_texture(&wgpu::TextureDescriptor {
                label: Some(&b.name),
                size,
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: wgpu::TextureFormat::Rgba32Uint,
                usage: wgpu::TextureUsages::STORAGE_BINDING
                    | wgpu::TextureUsages::COPY_DST
                    | wgpu::TextureUsages::COPY_SRC,
                view_formats: &[],
            })
        })?;
        let view = layers_view(&texture, b.layers, b.layers);
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
            what: "max_storage_buffer_binding_size",
            limit: gpu.caps.max_storage,
        });
    }
    let usage = wgpu::BufferUsages::STORAGE
        | wgpu::BufferUsages::UNIFORM
        | wgpu::BufferUsages::COPY_DST
        | wgpu::BufferUsages::COPY_SRC;
    Ok(Resource::Buffer(
        gpu.buffer_of(b.pool, &b.name, b.bytes, usage)?,
    ))
}
