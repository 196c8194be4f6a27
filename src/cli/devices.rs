//! `tokstep devices`: every adapter, what it can do, and which one is taken and why.

use super::out;
use clap::Args;
use tokstep::Result;
use tokstep::engine::Quarantine;
use tokstep::{gpu, models};

/// Show every adapter with its limits and features, and which one is picked and why
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep devices
  tokstep run --device 1 -m smollm2 -p Hello
  TOKSTEP_DEVICE=llvmpipe tokstep run -m smollm2 -p Hello")]
pub struct DevicesArgs {
    /// Adapter to pick: its number or a part of its name
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
}

pub fn run(args: &DevicesArgs) -> Result<()> {
    for a in gpu::adapters(args.device.as_deref())? {
        let mark = if a.picked { '*' } else { ' ' };
        out::line(format_args!("{mark} {} {}", a.index, a.name))?;
        let row = |key: &str, value: &str| out::line(format_args!("    {key:34} {value}"));
        row("backend", &a.backend)?;
        row("kind", a.kind)?;
        row("driver", &a.driver)?;
        row(if a.picked { "picked" } else { "not picked" }, &a.why)?;
        for (name, value) in &a.limits {
            row(name, &value.to_string())?;
        }
        row("features", &a.features.join(" "))?;
        let dir = models::proofs_dir().ok();
        for c in Quarantine::of(dir.as_deref(), &a.name, &a.driver, &a.backend).all() {
            row("in quarantine", &c.to_string())?;
        }
    }
    Ok(())
}
