//! One opened device and its queue, and a count of everything we ask of it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::again::Again;
use super::cache::Cache;
use super::fault::Fault;
use super::host::{HostClock, Moment};
use super::limits::Limits;
use super::lost::Trouble;
use super::{Commands, adapters};
use crate::kernel::Caps;
use crate::kernel::choose::Avoid;
use crate::plan::Pool;
use crate::{Error, Result};

/// A wait longer than this is reported as a hang rather than continued for ever.
const TIMEOUT: Duration = Duration::from_secs(900);

/// What was asked of the device so far. Tests assert that a decode loop changes only the last ones.
#[derive(Debug, Default)]
pub struct Counts {
    /// Buffers and textures made.
    pub allocations: AtomicU64,
    /// Bind groups made.
    pub bind_groups: AtomicU64,
    /// Pipelines made.
    pub pipelines: AtomicU64,
    /// Command buffers submitted.
    pub submits: AtomicU64,
    /// Dispatches recorded.
    pub dispatches: AtomicU64,
    /// Buffers mapped to read results.
    pub readbacks: AtomicU64,
}

impl Counts {
    /// (allocations, bind groups, pipelines, submits, dispatches, readbacks)
    pub fn snapshot(&self) -> [u64; 6] {
        [
            &self.allocations,
            &self.bind_groups,
            &self.pipelines,
            &self.submits,
            &self.dispatches,
            &self.readbacks,
        ]
        .map(|c| c.load(Ordering::Relaxed))
    }
}

/// Bytes asked of the device so far, by pool, and how many it may still be asked for.
#[derive(Debug)]
pub struct Pools {
    made: [AtomicU64; Pool::ALL.len()],
    left: AtomicU64,
}

impl Default for Pools {
    fn default() -> Self {
        Pools {
            made: Default::default(),
            left: AtomicU64::new(u64::MAX),
        }
    }
}

impl Pools {
    /// In the order of [`Pool::ALL`]; what was given back is still in it.
    pub fn snapshot(&self) -> [u64; Pool::ALL.len()] {
        std::array::from_fn(|i| self.made[i].load(Ordering::Relaxed))
    }

    /// From now on the device has room for so many bytes more, as one that is nearly full: the allocation
    /// that goes beyond fails as it would there.
    pub fn leave(&self, bytes: u64) {
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// Counts an allocation; whether there is room for it.
    fn take(&self, pool: Pool, bytes: u64) -> bool {
        let less = |left: u64| match left {
            u64::MAX => Some(left),
            left => left.checked_sub(bytes),
        };
        let order = Ordering::Relaxed;
        let room = self.left.fetch_update(order, order, less).is_ok();
        if room {
            add(&self.made[pool as usize], bytes);
        }
        room
    }
}

pub(super) fn add(c: &AtomicU64, n: u64) {
    c.fetch_add(n, Ordering::Relaxed);
}

/// An opened device.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) cache: Cache,
    /// Name of the adapter.
    pub name: String,
    /// Backend: `vulkan`, `metal`, `dx12`.
    pub backend: String,
    /// Driver name and its version, as far as the backend tells.
    pub driver: String,
    /// What kernels may use.
    pub caps: Caps,
    /// The limits it was opened with.
    pub limits: Limits,
    /// Bytes that are left, where that is known.
    pub memory: Option<u64>,
    /// How that is known, or why not.
    pub memory_source: &'static str,
    /// Bytes one buffer may have.
    pub max_buffer: u64,
    /// What was asked of the device.
    pub counts: Arc<Counts>,
    /// How many bytes were.
    pub pools: Pools,
    /// What the host spends on it.
    pub host: Arc<HostClock>,
    /// A variant that is to give wrong numbers, or to be refused.
    pub fault: Option<Fault>,
    /// What it told of itself.
    trouble: Trouble,
    /// Which one it is.
    pub(super) again: Again,
}

impl Gpu {
    /// Opens the adapter asked for (number or part of a name), or the best there is, with all it
    /// can do.
    pub fn open(wish: Option<&str>) -> Result<Arc<Gpu>> {
        Gpu::open_cached(wish, None)
    }

    /// [`Gpu::open`], with a folder in which compiled pipelines are kept.
    pub fn open_cached(wish: Option<&str>, dir: Option<&Path>) -> Result<Arc<Gpu>> {
        Gpu::open_limited(wish, dir, Limits::Adapter)
    }

    /// [`Gpu::open_cached`] with no more than a profile's limits and features.
    pub fn open_limited(
        wish: Option<&str>,
        dir: Option<&Path>,
        profile: Limits,
    ) -> Result<Arc<Gpu>> {
        let all = adapters::list(&adapters::instance());
        let adapter = &all[adapters::pick(&all, wish)?];
        Gpu::on(adapter, Again::of(&adapter.get_info()), dir, profile)
    }

    /// Opens a device that was lost, once nothing of it is left.
    pub fn reopen(again: &Again, dir: Option<&Path>, profile: Limits) -> Result<Arc<Gpu>> {
        let all = adapters::list(&adapters::instance());
        let infos: Vec<_> = all.iter().map(wgpu::Adapter::get_info).collect();
        Gpu::on(&all[again.pick(&infos)?], again.clone(), dir, profile)
    }

    fn on(
        adapter: &wgpu::Adapter,
        again: Again,
        dir: Option<&Path>,
        profile: Limits,
    ) -> Result<Arc<Gpu>> {
        let info = adapter.get_info();
        let (limits, features) = profile.of(adapter);
        let desc = wgpu::DeviceDescriptor {
            label: Some("tokstep"),
            required_features: features,
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::Performance,
            ..Default::default()
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&desc)).map_err(|e| {
            Error::DeviceRefused {
                device: info.name.clone(),
                reason: match profile {
                    Limits::Adapter => e.to_string(),
                    _ => format!("with limits '{profile}': {e}"),
                },
            }
        })?;
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        let caps = Caps {
            subgroups,
            subgroup_min: if subgroups { info.subgroup_min_size } else { 1 },
            subgroup_max: if subgroups {
                info.subgroup_max_size.max(1)
            } else {
                1
            },
            // Its weights are read as images.
            software: info.device_type == wgpu::DeviceType::Cpu
                && adapter
                    .get_texture_format_features(wgpu::TextureFormat::Rgba32Uint)
                    .flags
                    .contains(wgpu::TextureFormatFeatureFlags::STORAGE_READ_ONLY),
            max_storage: limits
                .max_storage_buffer_binding_size
                .min(limits.max_buffer_size),
            max_uniform: limits.max_uniform_buffer_binding_size,
            max_texture: limits.max_texture_dimension_2d,
            max_layers: limits.max_texture_array_layers,
            max_grid: limits.max_compute_workgroups_per_dimension,
            max_lanes: limits.max_compute_invocations_per_workgroup,
            avoid: Avoid::default(),
        };
        let (memory, memory_source) = super::memory::left(adapter, caps.software);
        Ok(Arc::new(Gpu {
            cache: Cache::open(&device, &info, dir),
            trouble: Trouble::of(&device),
            device,
            queue,
            name: info.name,
            driver: format!("{} {}", info.driver, info.driver_info)
                .trim()
                .into(),
            backend: info.backend.to_str().to_string(),
            memory,
            memory_source,
            caps,
            limits: profile,
            max_buffer: limits.max_buffer_size,
            counts: again.counts.clone(),
            pools: Pools::default(),
            host: again.host.clone(),
            fault: None,
            again,
        }))
    }

    /// A buffer of no program; out of memory is an error that names it.
    pub(super) fn buffer(
        &self,
        name: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer> {
        self.buffer_of(Pool::Readback, name, bytes, usage)
    }

    /// A buffer of a pool; out of memory is an error that names both.
    pub(super) fn buffer_of(
        &self,
        pool: Pool,
        name: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer> {
        if bytes > self.max_buffer {
            return Err(Error::BufferTooLarge {
                name: name.into(),
                bytes,
                what: "max_buffer_size",
                limit: self.max_buffer,
            });
        }
        let size = bytes.next_multiple_of(16);
        self.allocate(pool, name, size, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(name),
                size,
                usage,
                mapped_at_creation: false,
            })
        })
    }

    /// Runs an allocation and turns its failure into an error that names what was allocated, of what pool.
    pub(super) fn allocate<T>(
        &self,
        pool: Pool,
        name: &str,
        bytes: u64,
        make: impl FnOnce() -> T,
    ) -> Result<T> {
        let failed = |reason: String| Error::OutOfMemory {
            name: name.into(),
            pool: pool.name(),
            bytes,
            reason,
        };
        if !self.pools.take(pool, bytes) {
            return Err(failed("the device has no room left for it".into()));
        }
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let other = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = make();
        add(&self.counts.allocations, 1);
        let errors = [
            pollster::block_on(other.pop()),
            pollster::block_on(memory.pop()),
        ];
        match errors.into_iter().flatten().next() {
            None => Ok(made),
            Some(e) => Err(failed(e.to_string())),
        }
    }

    /// Bytes the device's allocator has handed out and reserved, where the backend tells.
    pub fn allocated(&self) -> Option<[u64; 2]> {
        let report = self.device.generate_allocator_report()?;
        Some([report.total_allocated_bytes, report.total_reserved_bytes])
    }

    /// Submits recorded work.
    pub fn submit(&self, commands: Commands) {
        add(&self.counts.submits, 1);
        self.host.submitting();
        let from = Moment::now();
        self.queue.submit([commands]);
        self.host.submitted(from);
    }

    /// Waits until everything submitted is done.
    pub fn wait(&self) -> Result<()> {
        self.wait_for(None)
    }

    /// Waits until a submission is done; `None`: all of them.
    pub(super) fn wait_for(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let wait = wgpu::PollType::Wait {
            submission_index,
            timeout: Some(TIMEOUT),
        };
        let from = Moment::now();
        // wgpu panics where the backend says that the device is lost; its callback was told before that.
        let poll = || self.device.poll(wait);
        let polled = match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(polled) => polled,
            Err(panic) => match self.trouble.error(&self.name) {
                Some(e) => return Err(e),
                None => resume_unwind(panic),
            },
        };
        self.host.waited(from);
        match (polled, self.trouble.error(&self.name)) {
            (_, Some(e)) => Err(e),
            (Ok(_), None) => Ok(()),
            (Err(e), None) => Err(self.stuck(e.to_string())),
        }
    }

    /// Forgets a refused command, whose consequences are dealt with.
    pub fn forgive(&self) {
        self.trouble.forgive();
    }

    /// The error of a device that does not answer, or that said why it cannot.
    pub(super) fn stuck(&self, reason: String) -> Error {
        let stuck = || Error::DeviceStuck {
            device: self.name.clone(),
            reason,
        };
        self.trouble.error(&self.name).unwrap_or_else(stuck)
    }

    /// Has the device be lost, as drivers have it now and then: for tests.
    pub fn destroy(&self) {
        self.device.destroy();
    }

    /// Has the device refuse something outside of any error scope, as it may refuse a command: for tests.
    pub fn refuse(&self) {
        let _ = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("a buffer without a use"),
            size: 16,
            usage: wgpu::BufferUsages::empty(), // which no buffer may have
            mapped_at_creation: false,
        });
    }
}
