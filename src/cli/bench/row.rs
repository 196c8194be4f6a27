//! A measured row with all its fields: llama-bench's names where it has the field, then ours.

use super::measure::{Samples, Yardsticks};
use super::test::Test;
use crate::cli::stats;
use serde_json::{Map, Value, json};
use tokstep::engine::EngineInfo;
use tokstep::gpu::{HostTimes, Spent};

/// A row by field name, in the order of columns.
pub type Row = Map<String, Value>;

/// A row from what was measured.
pub fn row(info: &EngineInfo, model: &str, test: Test, s: &Samples, yard: Yardsticks) -> Row {
    let tokens = test.tokens() as f64;
    let rates: Vec<f64> = s.ns.iter().map(|ns| tokens / ns * 1e9).collect();
    let rate = stats::mean(&rates);
    let (before, n) = (u64::from(test.before()), u64::from(test.gen_));
    let decode = test.decodes();
    let only = |value: Value| if decode { value } else { Value::Null };
    // A step reads the weights once for all sequences, and each sequence's own KV.
    let weights = info.weight_bytes_per_token as f64 / f64::from(test.parallel);
    let kv = info.work.mean_kv_bytes(before, n);
    let flops = match decode {
        true => info.work.flops(before, n, n) / n.max(1) as f64,
        false => {
            let prompt = u64::from(test.prompt);
            info.work.flops(before, prompt, 1) / prompt.max(1) as f64
        }
    };
    let steps = s.all_steps();
    let percentile = |p| only(json!(stats::percentile(&steps, p)));
    let mut row = object(json!({
        "build_commit": build(),
        "gpu_info": info.device,
        "driver": info.driver,
        "backends": info.backend,
        "model_filename": model,
        "model_type": format!("{} {} {}", info.arch, short_count(info.n_params), info.file_type),
        "model_size": info.model_bytes,
        "model_n_params": info.n_params,
        "type_k": "f16",
        "type_v": "f16",
        "n_gpu_layers": -1,
        "n_prompt": test.prompt,
        "n_gen": test.gen_,
        "n_depth": test.depth,
        "n_parallel": test.parallel,
        "test_time": now(),
        "avg_ns": stats::mean(&s.ns).round() as u64,
        "stddev_ns": stats::deviation(&s.ns).round() as u64,
        "avg_ts": rate,
        "stddev_ts": stats::deviation(&rates),
        "samples_ns": s.ns.iter().map(|&ns| ns as u64).collect::<Vec<_>>(),
        "samples_ts": rates,
        "test": test.name(),
        "ms_per_token": 1e3 / rate,
        "weight_bytes_per_token": only(json!(weights.round() as u64)),
        "kv_bytes_per_token": only(json!(kv.round() as u64)),
        "bytes_per_token": only(json!((weights + kv).round() as u64)),
        "copy_gb_per_s": yard.copy / 1e9,
        "percent_of_copy": only(json!((weights + kv) * rate / yard.copy * 100.0)),
        "flops_per_token": flops.round() as u64,
        "peak_gflop_per_s": yard.peak / 1e9,
        "percent_of_peak": flops * rate / yard.peak * 100.0,
        "dispatches_per_step": only(json!(info.dispatches_per_token)),
        "step_ms_p50": percentile(50.0),
        "step_ms_p95": percentile(95.0),
        "step_ms_p99": percentile(99.0),
        "step_ms_max": percentile(100.0),
    }));
    let host = Host::of(s).map(Host::fields);
    row.extend(host.unwrap_or_else(|| Host::default().fields().map(|(k, _)| (k, Value::Null))));
    row
}

/// What the host spent per decode step, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// Recording, which goes on while the device works.
    pub record: Part,
    pub submit: Part,
    pub wait: Part,
    pub readback: Part,
    /// CPU time of all four.
    pub cpu: f64,
    pub cpu_per_dispatch: f64,
    /// CPU time as a part of the step's wall time, in percent.
    pub percent: f64,
    /// The queue stands empty between submits.
    pub empty: f64,
}

/// Microseconds of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Between begin and end.
    pub wall: f64,
    /// CPU time of the calling thread.
    pub cpu: f64,
}

impl Host {
    /// `None` where no step was measured.
    pub fn of(s: &Samples) -> Option<Host> {
        let steps = s.all_steps();
        if steps.is_empty() || s.dispatches == 0 {
            return None;
        }
        let n = steps.len() as f64;
        let part = |of: fn(&HostTimes) -> Spent| {
            let sum = |ns: fn(Spent) -> u64| s.host.iter().map(|h| ns(of(h))).sum::<u64>();
            Part {
                wall: sum(|s| s.wall_ns) as f64 / 1e3 / n,
                cpu: sum(|s| s.cpu_ns) as f64 / 1e3 / n,
            }
        };
        let (record, submit) = (part(|h| h.record), part(|h| h.submit));
        let (wait, readback) = (part(|h| h.wait), part(|h| h.readback));
        let cpu = record.cpu + submit.cpu + wait.cpu + readback.cpu;
        Some(Host {
            record,
            submit,
            wait,
            readback,
            cpu,
            cpu_per_dispatch: cpu * n / s.dispatches as f64,
            percent: cpu / (stats::mean(&steps) * 1e3) * 100.0,
            empty: part(|h| h.empty).wall,
        })
    }

    fn fields(self) -> [(String, Value); 12] {
        [
            ("host_record_us", self.record.wall),
            ("host_submit_us", self.submit.wall),
            ("host_wait_us", self.wait.wall),
            ("host_readback_us", self.readback.wall),
            ("host_record_cpu_us", self.record.cpu),
            ("host_submit_cpu_us", self.submit.cpu),
            ("host_wait_cpu_us", self.wait.cpu),
            ("host_readback_cpu_us", self.readback.cpu),
            ("host_cpu_us", self.cpu),
            ("host_cpu_us_per_dispatch", self.cpu_per_dispatch),
            ("host_percent_of_step", self.percent),
            ("queue_empty_us", self.empty),
        ]
        .map(|(name, value)| (name.to_owned(), json!(value)))
    }
}

/// The fields of an object.
pub fn object(value: Value) -> Row {
    match value {
        Value::Object(map) => map,
        _ => unreachable!("an object was written above"),
    }
}

/// The version, and the commit where the build was told (`TOKSTEP_COMMIT`).
pub fn build() -> String {
    let version = concat!("tokstep-", env!("CARGO_PKG_VERSION"));
    match option_env!("TOKSTEP_COMMIT") {
        Some(commit) => format!("{version}-{commit}"),
        None => version.into(),
    }
}

/// The time in UTC, as llama-bench writes it.
pub fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Parameters as in a model's name: 135M, 1.2B, 8B.
fn short_count(n: u64) -> String {
    match n as f64 {
        n if n < 1e6 => format!("{:.0}K", n / 1e3),
        n if n < 1e9 => format!("{:.0}M", n / 1e6),
        n if n < 9.95e9 => format!("{:.1}B", n / 1e9).replace(".0B", "B"),
        n => format!("{:.0}B", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_in_names() {
        assert_eq!(short_count(134_515_008), "135M");
        assert_eq!(short_count(8_030_261_248), "8B");
    }

    #[test]
    fn the_hosts_part_of_a_step() {
        let spent = |wall_ns, cpu_ns| Spent {
            calls: 1,
            wall_ns,
            cpu_ns,
        };
        let host = HostTimes {
            record: spent(80_000, 40_000),
            submit: spent(8_000, 8_000),
            wait: spent(4_000_000, 6_000),
            readback: spent(800, 800),
            empty: spent(1_600, 0),
        };
        let mut s = Samples {
            step_ms: vec![vec![1.0; 4], vec![1.0; 4]],
            host: vec![host, host],
            dispatches: 80,
            ..Samples::default()
        };
        let h = Host::of(&s).unwrap();
        assert_eq!((h.record.wall, h.record.cpu), (20.0, 10.0));
        assert_eq!((h.submit.wall, h.wait.wall), (2.0, 1000.0));
        assert!(
            (h.cpu - 13.7).abs() < 1e-9 && (h.percent - 1.37).abs() < 1e-9,
            "{h:?}"
        );
        assert!((h.cpu_per_dispatch - 1.37).abs() < 1e-9 && (h.empty - 0.4).abs() < 1e-9);
        s.step_ms.clear();
        assert_eq!(Host::of(&s), None);
    }
}
