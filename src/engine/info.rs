//! What a loaded engine can say of itself, and what a context costs.

use super::fitting::Memory;
use super::quarantine::Caught;
use super::roofline::Work;
use crate::gguf::Gguf;
use crate::gpu::{Gpu, Limits, LoadTimes};
use crate::model::Model;
use crate::plan::{Program, sizes};

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
    /// Bytes by pool, as planned before anything was allocated.
    pub memory: Memory,
    /// Bytes by pool that the load asked the device for.
    pub allocated: Memory,
    /// Bytes the device had left before, where that is known.
    pub memory_left: Option<u64>,
    /// How that is known, or why not.
    pub memory_source: &'static str,
    /// The limits it was opened with.
    pub limits: Limits,
    /// Where there was no room for the context wanted, that one.
    pub wanted_context: Option<u32>,
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
        allocated: Memory::default(),
        memory_left: gpu.memory,
        memory_source: gpu.memory_source,
        limits: gpu.limits,
        wanted_context: None,
        matrix_bytes: m.weights.matrices().iter().map(|m| m.file_bytes()).sum(),
        load_ms: 0.0,
        load: Load::default(),
        tune_ms: 0.0,
        tuned: Vec::new(),
        quarantined: Vec::new(),
        without: Vec::new(),
    }
}
