//! `tokstep doctor`: every stage between a file and a token, one after the other, and for each that it
//! is fine, or what is wrong with whom and what to do.

mod anonymous;
mod file;
mod loader;
mod machine;
mod stage;

use super::{load, out, progress};
use anonymous::Anonymous;
use clap::Args;
use serde_json::json;
use stage::{Outcome, Stage, Whose};
use tokstep::{Error, Result};

/// Find out why it does not work: the file, the drivers, the device, one stage after the other
///
/// Each stage is fine, or says what is wrong and what to do; what cannot be tried since an earlier
/// stage failed is skipped. Without -m the machine alone is looked at, with made-up weights. Exit code
/// 1 if any stage failed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep doctor
  tokstep doctor -m model.gguf
  tokstep doctor -m smollm2 --device 1
  tokstep doctor -m model.gguf --limits browser
  tokstep doctor -m model.gguf --json > report.json")]
pub struct DoctorArgs {
    /// Path of a GGUF file, or a known name (see `tokstep pull --list`)
    #[arg(short, long, value_parser = load::not_empty())]
    model: Option<String>,
    /// Adapter to look at: its number or a part of its name, as `tokstep devices` shows them
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
    /// Print one JSON object for a bug report, without paths and names of users
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: load::LimitsArgs,
}

/// The stages so far.
pub struct Doctor {
    json: bool,
    stages: Vec<Stage>,
}

impl Doctor {
    /// Runs a stage, unless one of those it `needs` was not fine, and tells what came of it.
    pub fn stage(
        &mut self,
        name: &'static str,
        whose: Whose,
        needs: &[&'static str],
        look: impl FnOnce() -> Outcome,
    ) -> Result<()> {
        let missing = needs
            .iter()
            .find_map(|need| self.stages.iter().find(|s| s.name == *need && !s.went()));
        let outcome = match missing {
            Some(s) => Outcome::Skipped(format!("it needs {}, which {}", s.name, s.why_not())),
            None => {
                let bar = progress::spinner(name);
                let outcome = look();
                bar.finish_and_clear();
                outcome
            }
        };
        let (whose, outcome) = match outcome {
            Outcome::FileFailed(wrong, advice) => (Whose::File, Outcome::Failed(wrong, advice)),
            outcome => (whose, outcome),
        };
        let stage = Stage {
            name,
            whose,
            outcome,
        };
        if !self.json {
            out::line(out::clean(&stage.to_string()))?;
        }
        self.stages.push(stage);
        Ok(())
    }

    /// Whether a stage went well.
    fn went(&self, name: &str) -> bool {
        self.stages.iter().any(|s| s.name == name && s.went())
    }

    fn failed(&self, whose: Whose) -> bool {
        let failed = |s: &&Stage| matches!(s.outcome, Outcome::Failed { .. });
        self.stages.iter().filter(failed).any(|s| s.whose == whose)
    }

    /// Whose fault it is.
    fn verdict(&self, model: bool) -> &'static str {
        match (self.failed(Whose::File), self.failed(Whose::Machine)) {
            (false, false) if model => "all is well: file, drivers and device",
            (false, false) => "all is well with drivers and device",
            (true, false) => "the file is at fault, not this machine",
            (false, true) if model => {
                "this is not the model's fault: this machine is to be put right"
            }
            (false, true) => "this machine is to be put right",
            (true, true) => "both the file and this machine are at fault",
        }
    }
}

pub fn run(args: &DoctorArgs) -> Result<()> {
    let mut d = Doctor {
        json: args.json,
        stages: vec![],
    };
    let device = args.device.as_deref().filter(|d| !d.is_empty());
    let gguf = match &args.model {
        Some(model) => file::stages(&mut d, model)?,
        None => None,
    };
    let adapter = loader::stage(&mut d, device)?;
    let software = adapter.as_ref().is_some_and(|a| a.kind == "software");
    let wished = args.model.is_some();
    let limits = args.limits.limits;
    machine::stages(&mut d, gguf.as_ref(), wished, device, limits, software)?;
    let verdict = d.verdict(wished);
    let failed: Vec<&str> = d
        .stages
        .iter()
        .filter(|s| matches!(s.outcome, Outcome::Failed { .. }))
        .map(|s| s.name)
        .collect();
    if args.json {
        let anonymous = Anonymous::new(args.model.as_deref(), gguf.as_ref().map(|g| g.path()));
        let stages: Vec<_> = d.stages.iter().map(|s| s.object(&anonymous)).collect();
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": option_env!("TOKSTEP_COMMIT"),
            "os": std::env::consts::OS,
            "cpu_arch": std::env::consts::ARCH,
            "cpus": std::thread::available_parallelism().map_or(0, |n| n.get()),
            "device": adapter.map(|a| json!({
                "name": anonymous.text(&a.name),
                "backend": a.backend,
                "kind": a.kind,
                "driver": anonymous.text(&a.driver),
            })),
            "limits": limits.to_string(),
            "stages": stages,
            "ok": failed.is_empty(),
            "verdict": verdict,
        });
        out::line(serde_json::to_string_pretty(&report).expect("strings and numbers"))?;
    } else {
        out::line(format_args!("\n{verdict}"))?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::NotWell {
            stages: failed.join(", "),
        }),
    }
}
