//! What `run --json` prints: one object.

use serde::Serialize;
use tokstep::engine::{EngineInfo, Stats};

/// One answer.
#[derive(Serialize)]
pub struct Answer {
    /// Tokens of the prompt, all of them.
    pub prompt_tokens: usize,
    /// Ids of the answer, without the end token.
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
    /// What was idled to hold a limit, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<serde_json::Value>,
}

/// Milliseconds, and tokens per second.
#[derive(Serialize)]
pub struct Timings {
    load_ms: f64,
    load: Load,
    prefill_ms: f64,
    ttft_ms: f64,
    decode_ms: f64,
    prompt_per_second: f64,
    predicted_per_second: f64,
}

/// Parts of the load, in milliseconds. They run side by side and add up to more than the whole.
#[derive(Serialize)]
pub struct Load {
    open_ms: f64,
    tokenizer_ms: f64,
    weights_ms: f64,
    compile_ms: f64,
    warm_up_ms: f64,
}

impl Load {
    pub fn new(info: &EngineInfo) -> Load {
        let (load, device) = (&info.load, &info.load.device);
        Load {
            open_ms: load.open_ms,
            tokenizer_ms: load.tokenizer_ms,
            weights_ms: device.weights_ms,
            compile_ms: device.compile_ms,
            warm_up_ms: device.warm_up_ms,
        }
    }
}

impl Timings {
    pub fn new(info: &EngineInfo, stats: &Stats) -> Timings {
        Timings {
            load_ms: info.load_ms,
            load: Load::new(info),
            prefill_ms: stats.prefill_ms,
            ttft_ms: stats.ttft_ms,
            decode_ms: stats.decode_ms,
            prompt_per_second: prompt_rate(stats),
            predicted_per_second: decode_rate(stats),
        }
    }
}

/// Prompt tokens per second, the first token of the answer included in the time.
pub fn prompt_rate(stats: &Stats) -> f64 {
    per_second(stats.prompt_tokens, stats.prefill_ms)
}

/// Tokens per second after the first, which came out of the prompt.
pub fn decode_rate(stats: &Stats) -> f64 {
    per_second(stats.tokens.saturating_sub(1), stats.decode_ms)
}

/// 0 when nothing was measured.
fn per_second(count: usize, ms: f64) -> f64 {
    if ms > 0.0 {
        count as f64 / ms * 1e3
    } else {
        0.0
    }
}
