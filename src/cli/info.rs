//! `tokstep info`: what is in a file, what it needs, and what of it we cannot run.

use super::{fit, load, out};
use clap::Args;
use std::collections::BTreeMap;
use tokstep::engine::Memory;
use tokstep::gguf::{Array, Gguf, Value};
use tokstep::gpu::{Gpu, Limits};
use tokstep::model::Model;
use tokstep::plan::sizes::Wish;
use tokstep::plan::{self, Sizes};
use tokstep::text::{ChatTemplate, Tokenizer};
use tokstep::{Error, Result, quant, synth};

/// Metadata, tensors by type, the memory a context needs, and what is unsupported and why
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep info model.gguf
  tokstep info -m smollm2 -c 4096
  tokstep info -m smollm2 --fit
  tokstep info --synthetic qwen3-4b:q8_0
  tokstep info model.gguf --full --tensors")]
pub struct InfoArgs {
    /// Path of a GGUF file, or a known name
    #[arg(value_name = "FILE", required_unless_present_any = ["model", "synthetic"])]
    file: Option<String>,
    /// The same as FILE
    #[arg(short, long, conflicts_with = "file")]
    model: Option<String>,
    /// A model of this shape with random weights instead, as of `tokstep bench --synthetic`
    #[arg(long, value_name = "NAME[:TYPE]", conflicts_with_all = ["file", "model"])]
    synthetic: Option<String>,
    /// Context to show the memory for [default: 2048, 8192 and the model's own]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Show long values whole
    #[arg(long)]
    full: bool,
    /// Adapter to show the memory for: its number or a part of its name
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    limits: load::LimitsArgs,
    /// Show what contexts take of the device's memory, and which fit; nothing else
    #[arg(long, conflicts_with_all = ["context", "full", "tensors"])]
    fit: bool,
    /// List every tensor with its type and shape
    #[arg(long)]
    tensors: bool,
}

pub fn run(args: &InfoArgs) -> Result<()> {
    let model = args.file.as_ref().or(args.model.as_ref());
    let gguf = match &args.synthetic {
        Some(wish) => synth::open(wish)?,
        None => Gguf::open(&load::path(model.expect("clap requires one"))?)?,
    };
    let device = args.device.as_deref().filter(|d| !d.is_empty());
    if args.fit {
        let gpu = Gpu::open_limited(device, None, args.limits.limits)?;
        return fit::table(&Model::from_gguf(&gguf)?, &gpu);
    }
    out::line(format_args!("file       {}", gguf.path().display()))?;
    out::line(format_args!(
        "format     GGUF v{}, {} bytes, alignment {}",
        gguf.version(),
        gguf.file_bytes(),
        gguf.alignment()
    ))?;

    out::line("\nmetadata")?;
    let limit = if args.full { usize::MAX } else { 60 };
    for (key, value) in gguf.meta() {
        let key = out::clean(key);
        out::line(format_args!("  {key} = {}", show(value, limit)))?;
    }

    out::line("\ntensors by type")?;
    for (name, t) in by_type(&gguf) {
        out::line(format_args!(
            "  {name:8} {:5} tensors {:14} weights {:14} bytes{}",
            t.tensors,
            t.weights,
            t.bytes,
            if t.runs { "" } else { "  unsupported" }
        ))?;
    }
    if args.tensors {
        for t in gguf.tensors() {
            out::line(format_args!(
                "  {:8} {:?} {}",
                t.ty.name,
                t.shape,
                out::clean(&t.name)
            ))?;
        }
    }

    let model = Model::from_gguf(&gguf);
    if let Ok(model) = &model {
        out::line("\nmemory")?;
        for line in memory(model, args.context, device, args.limits.limits) {
            out::line(format_args!("  {line}"))?;
        }
    }
    let unsupported = unsupported(&gguf, model.as_ref().err());
    if !unsupported.is_empty() {
        out::line("\nunsupported")?;
        for line in unsupported {
            out::line(format_args!("  {}", out::clean(&line)))?;
        }
    }
    Ok(())
}

/// What the model takes on the device that would be picked, a line per context.
fn memory(
    model: &Model,
    context: Option<u32>,
    device: Option<&str>,
    limits: Limits,
) -> Vec<String> {
    let (caps, device) = match Gpu::open_limited(device, None, limits) {
        Ok(gpu) => (gpu.caps.clone(), gpu.name.clone()),
        Err(e) => return vec![format!("unknown: {e}")],
    };
    let wish = |context| Wish {
        context,
        slots: 1,
        chunk: None,
    };
    // The model's own context, as far as the device has room.
    let own =
        Sizes::fit(&model.hyper, &caps, wish(None)).map_or(model.hyper.context, |s| s.context);
    let contexts: Vec<u32> = match context {
        Some(c) => vec![c],
        None => [2048, 8192]
            .into_iter()
            .filter(|&c| c < own)
            .chain([own])
            .collect(),
    };
    let mut lines = vec![format!(
        "on {device}, in MiB: weights, KV cache, scratch, other, all"
    )];
    for context in contexts {
        lines.push(match plan::fit(model, &caps, wish(Some(context))) {
            Ok(program) => {
                let m = Memory::of(&program);
                let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
                format!(
                    "context {context:7}  {:9.1} {:9.1} {:9.1} {:9.1} {:9.1}",
                    mib(m.weights),
                    mib(m.kv),
                    mib(m.scratch),
                    mib(m.params + m.staging + m.readback),
                    mib(m.total())
                )
            }
            Err(e) => format!("context {context:7}  {e}"),
        });
    }
    lines
}

/// Why this file would not run, in sentences; empty when it would.
fn unsupported(gguf: &Gguf, model: Option<&Error>) -> Vec<String> {
    let types = by_type(gguf).into_iter().filter(|(_, t)| !t.runs);
    let types = types.map(|(name, t)| {
        format!(
            "tensor type {name}: no kernel reads it ({} tensors, the first is {})",
            t.tensors, t.first
        )
    });
    let text = [
        Tokenizer::from_gguf(gguf).err(),
        ChatTemplate::from_gguf(gguf).err(),
    ];
    let parts = model.map(Error::to_string).into_iter();
    let parts = parts.chain(text.iter().flatten().map(Error::to_string));
    parts.chain(types).collect()
}

struct OfType<'a> {
    tensors: usize,
    weights: u64,
    bytes: u64,
    first: &'a str,
    runs: bool,
}

fn by_type(gguf: &Gguf) -> BTreeMap<&'static str, OfType<'_>> {
    let mut types = BTreeMap::new();
    for t in gguf.tensors() {
        let entry = types.entry(t.ty.name).or_insert(OfType {
            tensors: 0,
            weights: 0,
            bytes: 0,
            first: &t.name,
            runs: quant::by_id(t.ty.id).is_some(),
        });
        entry.tensors += 1;
        entry.weights += t.shape.iter().product::<u64>();
        entry.bytes += t.bytes();
    }
    types
}

/// A value on one line. Text from the file is escaped: it could hold terminal commands.
fn show(value: &Value, limit: usize) -> String {
    match value {
        Value::Str(bytes) => quoted(bytes, limit),
        Value::Array(array) => show_array(array, limit),
        Value::Bool(v) => v.to_string(),
        v => match (v.as_int(), v.as_f32()) {
            (Some(int), _) => int.to_string(),
            (None, float) => float.map_or_else(|| format!("{v:?}"), |f| f.to_string()),
        },
    }
}

fn show_array(array: &Array, limit: usize) -> String {
    let take = limit
        .min(array.len())
        .min(if limit < 100 { 6 } else { usize::MAX });
    let items: Vec<String> = match (array.strs(), array.scalars()) {
        (Some(strs), _) => strs.take(take).map(|s| quoted(s, limit)).collect(),
        (_, Some(values)) => values.take(take).map(|v| show(&v, limit)).collect(),
        _ => vec![],
    };
    let more = if items.len() < array.len() {
        ", ..."
    } else {
        ""
    };
    format!(
        "{}[{}] [{}{more}]",
        array.elem().name(),
        array.len(),
        items.join(", ")
    )
}

fn quoted(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let short: String = text.chars().take(limit).collect();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("\"{}\"{more}", short.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_cut() {
        assert_eq!(quoted(b"a\x1b[31m\n", 60), r#""a\u{1b}[31m\n""#);
        assert_eq!(quoted(b"abcdef", 3), r#""abc"..."#);
        assert_eq!(quoted(b"\xff", 3), "\"\u{FFFD}\"");
    }
}
