//! Products timed alone, without the rest of a model: what each kernel makes of each weight type and shape.

use std::path::Path;
use std::sync::Arc;

use crate::gguf::Gguf;
use crate::gpu::{Gpu, GpuProgram, Limits};
use crate::kernel::Caps;
use crate::model::Model;
use crate::plan::alone::{self, Kind};
use crate::plan::{Batch, Pool, Which};
use crate::{Error, Result};

/// A timing this long is a good one, in seconds.
const LONG: f64 = 0.02;
/// Bytes of weights that are gone through in turn: more than the caches of a GPU. A software device's
/// arithmetic takes longer than its memory does.
const CYCLE: u64 = 256 << 20;
const SOFTWARE_CYCLE: u64 = 8 << 20;

/// A device to time products on.
pub struct KernelBench {
    gpu: Arc<Gpu>,
}

/// One product with a number of columns.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    /// Which of the model's, without its layer: `attn_q+k+v`.
    pub product: String,
    /// Weight type.
    pub ty: &'static str,
    /// Weights in a row.
    pub k: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: u32,
    /// Kernel, and its columns in one pass over the weights where there are such.
    pub kernel: String,
    /// Dispatches.
    pub dispatches: u32,
    /// Bytes of repacked weights.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Nanoseconds, one for each repetition.
    pub ns: Vec<f64>,
}

/// Bytes of the copy that bandwidth is measured with.
pub(super) fn copy_bytes(gpu: &Gpu) -> u64 {
    if gpu.caps.software { 64 << 20 } else { CYCLE }
}

impl KernelBench {
    /// Opens a device; see [`EngineOptions`](super::EngineOptions) for `device`, `cache` and `limits`.
    pub fn open(
        device: Option<&str>,
        cache: Option<&Path>,
        limits: Limits,
        adjust: Option<fn(&mut Caps)>,
    ) -> Result<KernelBench> {
        let mut gpu = Gpu::open_limited(device, cache, limits)?;
        if let (Some(adjust), Some(gpu)) = (adjust, Arc::get_mut(&mut gpu)) {
            adjust(&mut gpu.caps);
        }
        Ok(KernelBench { gpu })
    }

    /// Name of the device, backend, driver and its version.
    pub fn device(&self) -> [&str; 3] {
        [&self.gpu.name, &self.gpu.backend, &self.gpu.driver]
    }

    /// Whether times are the device's own, and not the host's clock.
    pub fn has_timestamps(&self) -> bool {
        self.gpu.has_timestamps()
    }

    /// Bytes per second the device reads while copying, measured now.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        self.gpu.copy_bandwidth(copy_bytes(&self.gpu))
    }

    /// Floating-point operations per second of the device (two to a multiply-add), measured now.
    pub fn peak_flops(&self) -> Result<f64> {
        self.gpu.peak_flops()
    }

    /// Times every distinct product of a model with each number of columns, `repetitions` times; logits
    /// with up to 16 columns only, as prompts need them for one. `each` is told as soon as one is done.
    pub fn run(
        &self,
        gguf: &Gguf,
        columns: &[u32],
        repetitions: u32,
        each: &mut dyn FnMut(KernelTime) -> Result<()>,
    ) -> Result<()> {
        let model = Model::from_gguf(gguf)?;
        for kind in alone::kinds(&model) {
            let all = columns.iter().copied();
            let columns: Vec<u32> = all.filter(|n| *n <= 16 || !kind.output).collect();
            if !columns.is_empty() {
                self.product(&model, &kind, &columns, repetitions, each)?;
            }
        }
        Ok(())
    }

    /// Products of [`KernelBench::run`] for a model and numbers of columns.
    pub fn count(gguf: &Gguf, columns: &[u32]) -> Result<usize> {
        let kinds = alone::kinds(&Model::from_gguf(gguf)?);
        let of = |k: &Kind| columns.iter().filter(|n| **n <= 16 || !k.output).count();
        Ok(kinds.iter().map(of).sum())
    }

    fn product(
        &self,
        model: &Model,
        kind: &Kind,
        columns: &[u32],
        repetitions: u32,
        each: &mut dyn FnMut(KernelTime) -> Result<()>,
    ) -> Result<()> {
        let (gpu, m) = (&self.gpu, &kind.matrix);
        let bytes = (m.row_vec4s() * 16 + 4) as u64 * m.rows as u64;
        let cycle = if gpu.caps.software {
            SOFTWARE_CYCLE
        } else {
            CYCLE
        };
        let copies = cycle.div_ceil(bytes);
        if let Some(memory) = gpu.memory.filter(|left| copies * bytes > *left) {
            return Err(Error::OutOfMemory {
                name: format!("{} copies of {}", copies, m.label),
                pool: Pool::Weights.name(),
                bytes: copies * bytes,
                reason: format!("only {memory} bytes are left"),
            });
        }
        let program = alone::program(model, &gpu.caps, kind, copies as usize, columns);
        let program = GpuProgram::load(gpu.clone(), program, &mut |_| ())?;
        for &n in columns {
            let batch = Batch { cols: n, kv_len: 1 };
            let seconds = |times| program.seconds(Which::Decode, batch, times);
            seconds(1)?; // drivers compile at the first dispatch
            let mut times = 1;
            while times < 1024 && seconds(times)? < LONG {
                times *= 2;
            }
            let mut ns = Vec::new();
            for _ in 0..repetitions {
                ns.push(seconds(times)? * 1e9 / (times as f64 * copies as f64));
            }
            let steps = program.program.steps(Which::Decode);
            let ran: Vec<_> = steps.filter(|s| s.grid(batch).is_some()).collect();
            let wide = ran[0].shader.overrides.iter().find(|o| o.0 == "COLS");
            each(KernelTime {
                product: kind.name.clone(),
                ty: m.ty.name,
                k: m.k,
                rows: m.rows,
                columns: n,
                kernel: match wide {
                    Some((_, n)) => format!("{} x{n}", ran[0].shader.kernel),
                    None => ran[0].shader.kernel.to_owned(),
                },
                dispatches: ran.len() as u32 / copies as u32,
                bytes,
                flops: 2 * (m.k * m.rows) as u64 * u64::from(n),
                ns,
            })?;
        }
        Ok(())
    }
}
