//! What `run --json` prints: one object.

use serde::Serialize;
use tokstep::engine::{EngineInfo, Stats, Stop};

/// One answer.
#[derive(Serialize)]
pub struct Answer {
    /// Tokens of the prompt, all of them.
    pub prompt_tokens: usize,
    /// Ids of the answer.
    pub tokens: Vec<u32>,
    /// The answer.
    pub text: String,
    /// `eos`, `stop`, `length`, `context`; `cancelled` after Ctrl-C.
    pub stop: &'static str,
    /// Seed that gives the same answer again.
    pub seed: u64,
    /// Device that computed it.
    pub device: String,
    pub timings: Timings,
}

/// Milliseconds, and tokens per second.
#[derive(Serialize)]
pub struct Timings {
    load_ms: f64,
    prefill_ms: f64,
    ttft_ms: f64,
    decode_ms: f64,
    prompt_per_second: f64,
    predicted_per_second: f64,
}

impl Timings {
    pub fn new(info: &EngineInfo, stats: &Stats) -> Timings {
        Timings {
            load_ms: info.load_ms,
            prefill_ms: stats.prefill_ms,
            ttft_ms: stats.ttft_ms,
            decode_ms: stats.decode_ms,
            prompt_per_second: per_second(stats.prompt_tokens as f64, stats.prefill_ms),
            predicted_per_second: per_second(stats.tokens as f64, stats.decode_ms),
        }
    }
}

/// `count` per second when it took `ms`; 0 when nothing was measured.
pub fn per_second(count: f64, ms: f64) -> f64 {
    if ms > 0.0 { count / ms * 1e3 } else { 0.0 }
}

/// The name of a stop reason.
pub fn stop_name(stop: Option<Stop>) -> &'static str {
    match stop {
        Some(Stop::Eos) => "eos",
        Some(Stop::Stop) => "stop",
        Some(Stop::Length) => "length",
        Some(Stop::Context) => "context",
        Some(Stop::Cancelled) | None => "cancelled",
    }
}
