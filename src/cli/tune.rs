//! `tokstep tune`: measures every way of computing a model's matrix products on a device, and keeps
//! which is best for later loads.

use super::{load, out, progress, synthetic};
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::time::Duration;
use tokstep::Result;
use tokstep::engine::{
    Engine, EngineOptions, LoadStage, Measured, Outcome, Tune, TuneOptions, TuneReport,
};
use tokstep::gguf::Gguf;
use tokstep::{models, synth};

/// Measure which kernels are fastest for a model on a device, and keep it for later loads
///
/// Every legal way of computing each shape of matrix product is checked against a plain CPU version and
/// timed. A first load of a model does the same in a few seconds; this takes its time.
#[derive(Args)]
#[command(group(ArgGroup::new("tuned").required(true).args(["model", "synthetic"])), after_help = "\
Examples:
  tokstep tune -m model.gguf
  tokstep tune --synthetic llama-3.1-8b:q4_k_m --seconds 60")]
pub struct TuneArgs {
    /// Path of a GGUF file, or a known name (see `tokstep pull --list`)
    #[arg(short, long, value_parser = load::not_empty())]
    model: Option<String>,
    /// Random weights of this model's shapes and types instead of a file
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = load::not_empty(),
          long_help = synthetic::help())]
    synthetic: Option<String>,
    /// Adapter to use: its number or a part of its name, as `tokstep devices` shows them
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    limits: load::LimitsArgs,
    /// Begin nothing that might take longer than what is left of this time
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(0..=86400))]
    seconds: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TuneArgs) -> Result<()> {
    let gguf = match (&args.synthetic, &args.model) {
        (Some(wish), _) => synth::open(wish)?,
        (None, model) => Gguf::open(&load::path(model.as_deref().unwrap_or_default())?)?,
    };
    let options = EngineOptions {
        device: args.device.clone(),
        limits: args.limits.limits,
        proofs: models::proofs_dir().ok(),
        tuning: models::tuning_dir().map_or(Tune::Off, Tune::Cached),
        ..EngineOptions::default()
    };
    let how = TuneOptions {
        budget: Duration::from_secs(args.seconds.into()),
        rounds: 15,
        least: 0,
        ..TuneOptions::default()
    };
    let bar = progress::count("tuning", 0);
    let report = Engine::tune(&gguf, &options, &how, &mut |stage| {
        if let LoadStage::Tuning { done, total } = stage {
            bar.set_length(total.into());
            bar.set_position(done.into());
        }
    });
    bar.finish_and_clear();
    let report = report?;
    match args.json {
        true => out::line(object(&report)),
        false => table(&report),
    }
}

/// A row per way, the one that is taken marked.
fn table(report: &TuneReport) -> Result<()> {
    for m in &report.measured {
        out::line(format_args!(
            "{}: {} of them, as {}",
            m.shape, m.count, m.label
        ))?;
        for (i, t) in m.tried.iter().enumerate() {
            let mark = if m.chosen == Some(i) { '*' } else { ' ' };
            let what = match &t.outcome {
                Outcome::Timed(ns) => format!(
                    "{:>11.2} us {:>9.2} GB/s  {:+6.1} %",
                    ns / 1e3,
                    m.bytes as f64 / ns,
                    100.0 * (usual(m) / ns - 1.0)
                ),
                Outcome::Failed(why) => format!("not taken: {}", why.trim_end()),
            };
            out::line(format_args!("{mark} {:<62} {what}", t.cut.to_string()))?;
        }
    }
    for shape in &report.left {
        out::line(format_args!("{shape}: no time left (--seconds)"))?;
    }
    let other = |m: &&Measured| m.chosen.is_some_and(|i| i > 0);
    out::line(format_args!(
        "{} shapes in {:.1} s; {} of them are faster in another way than is usual",
        report.measured.len(),
        report.ms / 1e3,
        report.measured.iter().filter(other).count()
    ))
}

/// Nanoseconds of the usual way; not a number if it failed.
fn usual(m: &Measured) -> f64 {
    match m.tried[0].outcome {
        Outcome::Timed(ns) => ns,
        Outcome::Failed(_) => f64::NAN,
    }
}

fn object(report: &TuneReport) -> Value {
    let tried = |m: &Measured| -> Vec<Value> {
        let one = |(i, t): (usize, &tokstep::engine::Tried)| {
            let (ns, failed) = match &t.outcome {
                Outcome::Timed(ns) => (Some(*ns), None),
                Outcome::Failed(why) => (None, Some(why)),
            };
            json!({
                "cut": t.cut.to_string(),
                "ns": ns,
                "gb_per_s": ns.map(|ns| m.bytes as f64 / ns),
                "failed": failed,
                "chosen": m.chosen == Some(i),
            })
        };
        m.tried.iter().enumerate().map(one).collect()
    };
    let measured = |m: &Measured| {
        json!({
            "type": m.shape.ty,
            "rows": m.shape.rows,
            "k": m.shape.k,
            "columns": m.shape.cols,
            "label": m.label,
            "count": m.count,
            "bytes": m.bytes,
            "tried": tried(m),
        })
    };
    let left: Vec<String> = report.left.iter().map(ToString::to_string).collect();
    json!({
        "measured": report.measured.iter().map(measured).collect::<Vec<_>>(),
        "left": left,
        "ms": report.ms,
    })
}
