//! `info --fit`: what contexts of a model take of a device's memory, and which of them fit.

use super::out;
use tokstep::Result;
use tokstep::engine::{Fit, KV_TYPES, fits, weights_by_type};
use tokstep::gpu::Gpu;
use tokstep::model::Model;
use tokstep::plan;
use tokstep::plan::sizes::Wish;

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Prints the table.
pub fn table(model: &Model, gpu: &Gpu) -> Result<()> {
    let left = gpu.memory.map(|n| format!("{:.1} MiB, ", mib(n)));
    out::line(format_args!(
        "{}, limits {}; left: {}{}",
        out::clean(&gpu.name),
        gpu.limits,
        left.unwrap_or_default(),
        gpu.memory_source
    ))?;
    let wish = Wish {
        context: Some(1),
        slots: 1,
        chunk: None,
    };
    let types = weights_by_type(&plan::fit(model, &gpu.caps, wish)?);
    let types = types
        .iter()
        .map(|(name, n)| format!("{name} {:.1}", mib(*n)));
    out::line(format_args!(
        "weights on the device by type, in MiB: {}",
        types.collect::<Vec<_>>().join(", ")
    ))?;
    out::line("\nMiB by context, all of it by type of the KV cache")?;
    let all = KV_TYPES.map(|t| format!("{:>10}", format!("all, {t}")));
    out::line(format_args!(
        "{:>9} {:>10} {:>10} {:>10} {:>10} {}  fits",
        "context",
        "weights",
        "KV",
        "scratch",
        "other",
        all.join(" ")
    ))?;
    let rows = fits(model, gpu);
    for row in &rows {
        line(row)?;
    }
    let largest = rows.iter().rfind(|r| r.fits == Some(true));
    match (gpu.memory, largest) {
        (None, _) => {
            out::line("what fits is not known here: nothing is refused before it is tried")
        }
        (_, None) => out::line("no context fits: choose a smaller model"),
        (_, Some(r)) if r.context < model.hyper.context => out::line(format_args!(
            "the largest context that fits is {} (-c auto); the model was trained for {}",
            r.context, model.hyper.context
        )),
        (_, Some(r)) => out::line(format_args!("the model's context of {} fits", r.context)),
    }
}

fn line(row: &Fit) -> Result<()> {
    let fits = match row.fits {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    match &row.memory {
        Ok(m) => out::line(format_args!(
            "{:>9} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1}  {fits}",
            row.context,
            mib(m.weights),
            mib(m.kv),
            mib(m.scratch),
            mib(m.params + m.staging + m.readback),
            mib(m.total())
        )),
        Err(e) => out::line(format_args!("{:>9} {fits}: {e}", row.context)),
    }
}
