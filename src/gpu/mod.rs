//! The only room that names wgpu: adapters, one device, persistent buffers, pipelines, bind groups,
//! and the recording of plans into command buffers. It knows plans and repacked rows, no file.

pub mod adapters;
mod again;
mod cache;
mod copy;
mod device;
mod fault;
mod host;
mod limits;
mod lost;
mod make;
mod memory;
mod peak;
mod pipelines;
mod profile;
mod program;
mod read;
mod repeat;
mod time;
mod trusted;
mod upload;

pub use adapters::{AdapterInfo, adapters};
pub use again::Again;
pub use device::{Counts, Gpu, Pools};
pub use fault::Fault;
pub use host::{HostClock, HostTimes, Spent};
pub use limits::Limits;
pub use make::PARAMS_BYTES;
pub use profile::StepTime;
pub use program::{GpuProgram, LoadTimes, Loading};
pub use read::Staging;
pub use upload::staging_bytes;

/// Recorded work, ready to be submitted once. The engine hands these around without naming wgpu.
pub type Commands = wgpu::CommandBuffer;

/// What work is being recorded into.
pub type Encoder = wgpu::CommandEncoder;
