//! From flags to a loaded engine: MODEL is a path or a known name, with bars on the way.

use super::{out, progress, pull};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use std::path::PathBuf;
use tokstep::Result;
use tokstep::engine::{Engine, EngineOptions, LoadStage, Tune};
use tokstep::gpu::Limits;
use tokstep::models::{self, Named};

/// Which model, on which device.
#[derive(Args)]
pub struct ModelArgs {
    /// Path of a GGUF file, or a known name (see `tokstep pull --list`)
    #[arg(short, long, value_parser = not_empty())]
    pub model: String,
    /// Adapter to use: its number or a part of its name, as `tokstep devices` shows them
    #[arg(long, env = "TOKSTEP_DEVICE")]
    pub device: Option<String>,
    #[command(flatten)]
    pub limits: LimitsArgs,
    #[command(flatten)]
    pub kernels: KernelArgs,
}

/// The limits a device is opened with.
#[derive(Args, Clone, Copy)]
pub struct LimitsArgs {
    /// Ask no more of the device than: adapter (all it has), browser (WebGPU's defaults), low (bindings
    /// of 1 MiB)
    #[arg(
        long,
        env = "TOKSTEP_LIMITS",
        value_name = "PROFILE",
        default_value = "adapter"
    )]
    pub limits: Limits,
}

/// Positions of a context, or as many as fit.
#[derive(Clone, Copy)]
pub enum Context {
    /// So many.
    Of(u32),
    /// The largest that fits, at most the model's.
    Auto,
}

impl std::str::FromStr for Context {
    type Err = String;

    fn from_str(s: &str) -> std::result::Result<Context, String> {
        match (s, s.parse()) {
            ("auto", _) => Ok(Context::Auto),
            (_, Ok(n)) if n > 0 => Ok(Context::Of(n)),
            _ => Err("it must be a number of tokens from 1 on, or auto".into()),
        }
    }
}

/// The options of `-c`.
pub fn sized(context: Option<Context>) -> EngineOptions {
    EngineOptions {
        context: match context {
            Some(Context::Of(n)) => Some(n),
            _ => None,
        },
        largest: matches!(context, Some(Context::Auto)),
        ..EngineOptions::default()
    }
}

/// Which kernels are used.
#[derive(Args, Clone)]
pub struct KernelArgs {
    /// Take the usual kernels, and neither measure nor look up which are fastest on this device
    #[arg(long)]
    no_tune: bool,
    /// Do not test kernels before their first use on this device, and use those, too, that failed before
    #[arg(long)]
    no_self_test: bool,
    #[command(flatten)]
    pub fault: FaultArg,
}

/// To test the tests.
#[derive(Args, Clone)]
pub struct FaultArg {
    /// Let kernel variants whose names have this in them compute wrong numbers (/K: in one of K dispatches), or be
    /// refused by the device (/refused: to make them, /rejected: to run them)
    #[arg(long, value_name = "PATTERN[/K]", hide = true, value_parser = fault)]
    pub fault: Option<String>,
}

fn fault(text: &str) -> Result<String, String> {
    text.parse::<tokstep::gpu::Fault>()?;
    Ok(text.into())
}

impl KernelArgs {
    /// `options` with what these flags say.
    pub fn put(&self, options: EngineOptions) -> EngineOptions {
        // Without a home folder nothing is kept, which only costs time; and then nothing is measured.
        let tuning = match self.no_tune {
            true => Tune::Off,
            false => models::tuning_dir().map_or(Tune::Off, Tune::OnHardware),
        };
        EngineOptions {
            cache: models::pipelines_dir().ok(),
            proofs: models::proofs_dir().ok().filter(|_| !self.no_self_test),
            fault: self.fault.fault.clone(),
            tuning,
            ..options
        }
    }
}

/// Refuses an empty MODEL as a usage error: an unset variable in a script.
pub fn not_empty() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// The path of a MODEL; a known model is fetched if the cache does not have it.
pub fn path(model: &str) -> Result<PathBuf> {
    match models::resolve(model)? {
        Named::Path(path) => Ok(path),
        Named::Known(known) => pull::fetch(known),
    }
}

/// Loads the model of `args`.
pub fn engine(args: &ModelArgs, options: EngineOptions) -> Result<Engine> {
    let options = args.kernels.put(EngineOptions {
        device: args.device.clone(),
        limits: args.limits.limits,
        ..options
    });
    let path = path(&args.model)?;
    under_bars(|progress| Engine::load(&path, &options, progress))
}

/// Runs a load under its bars, and says what came of it.
pub fn under_bars(
    load: impl FnOnce(&mut dyn FnMut(LoadStage)) -> Result<Engine>,
) -> Result<Engine> {
    let mut bar: Option<indicatif::ProgressBar> = None;
    let mut weights_left = true;
    let engine = load(&mut |stage| {
        let (what, done, total) = match stage {
            LoadStage::Proofs { done, total } => ("testing kernels", done.into(), total.into()),
            LoadStage::Tuning { done, total } => ("tuning", done.into(), total.into()),
            LoadStage::Weights { done, total } => ("weights", done, total),
            LoadStage::Pipelines { done, total } => ("pipelines", done.into(), total.into()),
        };
        // Both go on side by side; the bar shows the weights until they are there.
        match stage {
            LoadStage::Weights { done, total } => weights_left = done < total,
            LoadStage::Pipelines { .. } if weights_left => return,
            _ => (),
        }
        if bar.as_ref().is_none_or(|b| b.message() != what) {
            bar.take().inspect(|b| b.finish_and_clear());
            bar = Some(match stage {
                LoadStage::Weights { .. } => progress::bytes(what, total),
                _ => progress::count(what, total),
            });
        }
        bar.as_ref().inspect(|b| b.set_position(done));
    });
    bar.inspect(|b| b.finish_and_clear());
    let engine = engine?;
    let info = engine.info();
    tracing::info!(
        "{} on {}, context {}, loaded in {:.0} ms",
        info.model_name,
        info.device,
        info.context,
        info.load_ms
    );
    let (load, device) = (&info.load, &info.load.device);
    tracing::info!(
        "side by side: opened after {:.0} ms, tokenizer {:.0} ms, weights {:.0} ms, pipelines {:.0} ms; then warm-up {:.0} ms",
        load.open_ms,
        load.tokenizer_ms,
        device.weights_ms,
        device.compile_ms,
        device.warm_up_ms,
    );
    if info.tune_ms > 0.0 {
        tracing::info!("tuned in {:.0} ms (--no-tune: not at all)", info.tune_ms);
    }
    for cut in &info.tuned {
        tracing::info!("tuned: {cut}");
    }
    if !info.without.is_empty() {
        tracing::warn!(
            "{} kernel variants are in quarantine on {} (`tokstep devices` lists them); done without them: {}",
            info.quarantined.len(),
            info.device,
            info.without.join(", ")
        );
    }
    if let Some(wanted) = info.wanted_context {
        out::say(format_args!(
            "context {} instead of {wanted}: the largest that fits {} (limits {}, {} MiB left: {})",
            info.context,
            info.device,
            info.limits,
            info.memory_left
                .map_or("?".into(), |n| (n >> 20).to_string()),
            info.memory_source,
        ));
    }
    tracing::info!(
        "limits {}; memory in bytes, planned and allocated:",
        info.limits
    );
    for ((pool, planned), (_, made)) in info.memory.pools().into_iter().zip(info.allocated.pools())
    {
        tracing::info!("  {:9} {planned:>14} {made:>14}", pool.name());
    }
    let left = info.memory_left.map_or("?".into(), |n| n.to_string());
    tracing::info!("  {:9} {left:>14} ({})", "left", info.memory_source);
    if info.context > info.model_context {
        tracing::warn!(
            "the model was trained for {} tokens of context, not for {}: what it writes behind them may be bad",
            info.model_context,
            info.context
        );
    }
    Ok(engine)
}
