//! What a loaded engine can say of itself, and what a context costs.

use super::quarantine::Caught;
use super::roofline::Work;
use crate::gguf::Gguf;
use crate::gpu::{Gpu, LoadTimes};
use crate::model::Model;
use crate::plan::{Pool, Program, sizes};

/// Facts of a load.
#[derive(Clone, Debug)]
pub struct EngineInfo {
    /// Device name.
    pub device: String,
    /// Backend: `vulkan`, `metal`, `dx12`.
    pub backend: String,
    /// `general.name`, or the file's name.
    pub model_name: String,
    /// `general.architecture`
    pub arch: String,
    /// Weights of all tensors.
    pub n_params: u64,
    /// Bytes of the file (all parts).
    pub model_bytes: u64,
    /// The type most weights have.
    pub file_type: String,
    /// Positions per sequence here.
    pub context: u32,
    /// Positions the model was trained for.
    pub model_context: u32,
    /// Repacked weight bytes one decode step reads.
    pub weight_bytes_per_token: u64,
    /// KV bytes one decode step reads per position before it.
    pub kv_bytes_per_position: u64,
    /// The least work of a token.
    pub work: Work,
    /// Driver and its version, as far as the backend tells.
    pub driver: String,
    /// Dispatches of one decode step.
    pub dispatches_per_token: u32,
    /// Bytes by pool, as allocated.
    pub memory: Memory,
    /// Bytes of matrices in the file.
    pub matrix_bytes: u64,
    /// Milliseconds from opening the file to the end of the warm-up.
    pub load_ms: f64,
    /// The parts of it.
    pub load: Load,
    /// Milliseconds of it spent on measuring how products are best cut.
    pub tune_ms: f64,
    /// Each shape whose products are cut in another way than is usual, and how.
    pub tuned: Vec<String>,
    /// Kernel variants that were caught computing wrong numbers on this device.
    pub quarantined: Vec<Caught>,
    /// What the plan does without because of them.
    pub without: Vec<&'static str>,
}

/// Milliseconds of the parts of a load. Parts run side by side, so they add up to more than the whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Until the file was read, the device opened and the plan made.
    pub open_ms: f64,
    /// Tokenizer and chat template.
    pub tokenizer_ms: f64,
    /// Weights, pipelines, warm-up.
    pub device: LoadTimes,
}

/// Bytes by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Memory {
    pub weights: u64,
    pub kv: u64,
    pub scratch: u64,
}

impl Memory {
    /// Adds up a program's buffers.
    pub fn of(p: &Program) -> Memory {
        let sum = |pool: Pool| {
            p.buffers
                .iter()
                .filter(|b| b.pool == pool)
                .map(|b| b.bytes)
                .sum()
        };
        Memory {
            weights: sum(Pool::Weights),
            kv: sum(Pool::Kv),
            scratch: sum(Pool::Scratch),
        }
    }

    /// All pools.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.scratch
    }
}

pub(super) fn describe(g: &Gguf, m: &Model, gpu: &Gpu, p: &Program) -> EngineInfo {
    let file = || {
        g.path()
            .file_stem()
            .map(|s| s.to_string_lossy().into_owned())
    };
    let name = g
        .get("general.name")
        .and_then(|v| v.as_str_lossy())
        .map(|s| s.into_owned());
    // The embedding is often kept at another type than the rest; what most layers use names the file.
    let layers = |t: &&crate::gguf::TensorInfo| t.name.starts_with("blk.") && t.shape.len() == 2;
    let mut most = std::collections::BTreeMap::new();
    for t in g.tensors().iter().filter(layers) {
        *most.entry(t.ty.name).or_insert(0u64) += t.weights();
    }
    let file_type = most
        .into_iter()
        .max_by_key(|(_, n)| *n)
        .map_or("F32", |(n, _)| n);
    EngineInfo {
        device: gpu.name.clone(),
        backend: gpu.backend.clone(),
        model_name: name.or_else(file).unwrap_or_default(),
        arch: m.hyper.arch.to_string(),
        n_params: g
            .tensors()
            .iter()
            .map(crate::gguf::TensorInfo::weights)
            .sum(),
        model_bytes: g.file_bytes(),
        file_type: file_type.to_string(),
        context: p.sizes.context,
        model_context: m.hyper.context,
        weight_bytes_per_token: sizes::weight_bytes_per_token(m),
        kv_bytes_per_position: p.sizes.kv_bytes_per_position(&m.hyper),
        work: Work::of(g, m, &p.sizes),
        driver: gpu.driver.clone(),
        dispatches_per_token: p.decode.dispatches() as u32,
        memory: Memory::of(p),
        matrix_bytes: m.weights.matrices().iter().map(|m| m.file_bytes()).sum(),
        load_ms: 0.0,
        load: Load::default(),
        tune_ms: 0.0,
        tuned: Vec::new(),
        quarantined: Vec::new(),
        without: Vec::new(),
    }
}
