//! Makes the steps of plans: pipelines on all cores, a first dispatch of each so that drivers
//! compile while weights load, and the bind groups.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;

use rayon::prelude::*;

use super::device::{Gpu, add};
use super::fault;
use super::pipelines::{Pipeline, Pipelines};
use super::program::{GpuPlan, GpuStep, Resource, layers_view};
use super::upload::Event;
use crate::kernel::choose::UNIFORM_X;
use crate::plan::{Bind, BufId, Plan, Pool, Program, Sizes, Step};
use crate::{Error, Result};

/// Bytes that a step's parameters take in the buffer of all.
pub const PARAMS_BYTES: u64 = 256;

/// How many pages of the KV cache are bound, from the fewest to all.
pub fn rungs(s: &Sizes) -> Vec<u32> {
    let all = (s.slots * s.pages_per_slot).max(1);
    let mut rungs: Vec<u32> = (2..32).map(|i| 1 << i).take_while(|n| *n < all).collect();
    rungs.push(all);
    rungs
}

/// Makes the steps of some plans; their parameters share one uniform buffer.
pub struct Maker<'a> {
    gpu: &'a Gpu,
    program: &'a Program,
    plans: Vec<&'a Plan>,
    resources: &'a [Resource],
    rungs: Vec<u32>,
    params: wgpu::Buffer,
    /// The load has failed elsewhere.
    pub stop: AtomicBool,
}

impl<'a> Maker<'a> {
    /// Writes the parameters of all steps.
    pub fn new(
        gpu: &'a Gpu,
        program: &'a Program,
        plans: Vec<&'a Plan>,
        resources: &'a [Resource],
    ) -> Result<Maker<'a>> {
        let mut arena = Vec::new();
        for step in plans.iter().flat_map(|p| p.steps()) {
            let end = arena.len() + PARAMS_BYTES as usize;
            arena.extend(&step.params);
            assert!(arena.len() <= end, "parameters of {}", step.label);
            arena.resize(end, 0);
        }
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let params = gpu.buffer_of(Pool::Params, "params", arena.len() as u64, usage)?;
        gpu.queue.write_buffer(&params, 0, &arena);
        Ok(Maker {
            gpu,
            program,
            plans,
            resources,
            rungs: rungs(&program.sizes),
            params,
            stop: AtomicBool::new(false),
        })
    }

    /// Makes all; `warm`: with a first dispatch of every pipeline.
    pub fn make(&self, warm: bool, tell: &Sender<Event>) -> Result<Vec<GpuPlan>> {
        let steps: Vec<&Step> = self.plans.iter().flat_map(|p| p.steps()).collect();
        let pipelines = Pipelines::make(self.gpu, steps.iter().map(|s| &s.shader))?;
        if warm {
            self.warm_up(&pipelines, &steps)?;
        }
        let (total, done) = (steps.len() as u32, AtomicU32::new(0));
        let made = steps.par_iter().enumerate().map(|(i, step)| {
            let n = done.fetch_add(1, Ordering::Relaxed) + 1;
            if n.is_multiple_of(32) || n == total {
                let _ = tell.send(Event::Bound(n, total));
            }
            self.step(&pipelines, i, step)
        });
        let mut made = made.collect::<Result<Vec<_>>>()?.into_iter();
        let plans = self.plans.iter().map(|p| GpuPlan {
            body: made.by_ref().take(p.body.len()).collect(),
            tail: made.by_ref().take(p.tail.len()).collect(),
        });
        tracing::debug!(pipelines = pipelines.len(), "plans bound");
        Ok(plans.collect())
    }

    /// Dispatches one workgroup of every pipeline, of the step that reads the fewest weights: they
    /// are cleared where they are not there yet. Each is a submit of its own, so that pieces of
    /// weights come between the compilations.
    fn warm_up(&self, pipelines: &Pipelines, steps: &[&Step]) -> Result<()> {
        let gpu = self.gpu;
        if let Resource::Buffer(rows) = &self.resources[self.program.io.prompt_rows] {
            gpu.queue
                .write_buffer(rows, 0, bytemuck::bytes_of(&u32::MAX));
        }
        let weights = |step: &Step| -> u64 {
            let buffers = step.binds.iter().map(|b| &self.program.buffers[b.buf]);
            let weights = buffers.filter(|b| b.pool == Pool::Weights);
            weights.map(|b| b.bytes).sum()
        };
        let mut lightest: Vec<Option<usize>> = vec![None; pipelines.len()];
        for (i, step) in steps.iter().enumerate() {
            let best = &mut lightest[pipelines.number(&step.shader)];
            if best.is_none_or(|b| weights(steps[b]) > weights(step)) {
                *best = Some(i);
            }
        }
        for i in lightest.into_iter().flatten() {
            let made = self.step(pipelines, i, steps[i])?;
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&made.pipeline);
            pass.set_bind_group(0, &made.groups[0], &[]);
            pass.dispatch_workgroups(1, 1, 1);
            drop(pass);
            add(&gpu.counts.dispatches, 1);
            gpu.submit(encoder.finish());
        }
        Ok(())
    }

    fn step(&self, pipelines: &Pipelines, index: usize, step: &Step) -> Result<GpuStep> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(self.gpu.stuck("the load was given up".into()));
        }
        let number = pipelines.number(&step.shader);
        let kv = |b: &Bind| self.program.buffers[b.buf].pool == Pool::Kv;
        let rungs = if step.binds.iter().any(kv) {
            &self.rungs[..]
        } else {
            &self.rungs[self.rungs.len() - 1..]
        };
        let groups = rungs
            .iter()
            .map(|pages| self.group(&pipelines[number], index, step, *pages));
        Ok(GpuStep {
            pipeline: pipelines[number].pipeline.clone(),
            number,
            groups: groups.collect::<Result<Vec<_>>>()?,
            spoil: fault::spoil(self.gpu, step, self.resources)?,
        })
    }

    /// The bind group of a step, with so many pages of the KV cache.
    fn group(
        &self,
        p: &Pipeline,
        index: usize,
        step: &Step,
        pages: u32,
    ) -> Result<wgpu::BindGroup> {
        let part = |buf: BufId, offset: u64| {
            let b = &self.program.buffers[buf];
            let all = u64::from(*self.rungs.last().unwrap_or(&1));
            let used = (b.bytes / all * u64::from(pages)).saturating_sub(offset);
            (b.pool == Pool::Kv && u64::from(pages) < all).then_some(used)
        };
        // The layers of a cache that is a texture, with so many pages.
        let views: Vec<Option<wgpu::TextureView>> = step
            .binds
            .iter()
            .map(
                |b| match (&self.resources[b.buf], &self.program.buffers[b.buf]) {
                    (Resource::Texture { texture, .. }, buffer) if buffer.layers > 0 => {
                        let all = u64::from(*self.rungs.last().unwrap_or(&1));
                        let n = (u64::from(buffer.layers) * u64::from(pages)).div_ceil(all) as u32;
                        Some(layers_view(
                            texture,
                            n.clamp(1, buffer.layers),
                            buffer.layers,
                        ))
                    }
                    _ => None,
                },
            )
            .collect();
        let entries: Vec<wgpu::BindGroupEntry> = p
            .bindings
            .iter()
            .map(|(name, binding, uniform)| {
                if name == "P" {
                    let bytes = step.params.len().next_multiple_of(16) as u64;
                    return entry(
                        *binding,
                        &self.params,
                        PARAMS_BYTES * index as u64,
                        Some(bytes),
                    );
                }
                let at = step.binds.iter().position(|b| b.name == name);
                let at = at.unwrap_or_else(|| panic!("{name} of {} is not bound", step.label));
                let b = &step.binds[at];
                match &self.resources[b.buf] {
                    Resource::Buffer(buffer) => {
                        let uniform = uniform.then_some(u64::from(UNIFORM_X));
                        let size = uniform.or_else(|| part(b.buf, b.offset));
                        entry(*binding, buffer, b.offset, size)
                    }
                    Resource::Texture { view, .. } => wgpu::BindGroupEntry {
                        binding: *binding,
                        resource: wgpu::BindingResource::TextureView(
                            views[at].as_ref().unwrap_or(view),
                        ),
                    },
                }
            })
            .collect();
        let device = &self.gpu.device;
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(&step.label),
            layout: &p.layout,
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
        Ok(group)
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
