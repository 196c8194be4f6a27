//! `--synthetic` and `--gguf-out`: a model that exists by shape only, in the place of a file.

use super::load::{self, KernelArgs, LimitsArgs, ModelArgs};
use super::{out, progress};
use clap::{ArgGroup, Args};
use std::path::PathBuf;
use tokstep::engine::{Engine, EngineOptions};
use tokstep::gpu::Limits;
use tokstep::{Result, synth};

/// A model from a file or one made up, and on which device.
#[derive(Args)]
#[command(group(ArgGroup::new("source").required(true).args(["model", "synthetic"])))]
pub struct SourceArgs {
    /// Path of a GGUF file, or a known name (see `tokstep pull --list`)
    #[arg(short, long, value_parser = load::not_empty())]
    model: Option<String>,
    /// Random weights of this model's shapes and types instead of a file
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = load::not_empty(), long_help = help())]
    synthetic: Option<String>,
    /// Write the synthetic model into a new GGUF file, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    gguf_out: Option<PathBuf>,
    /// Adapter to use: its number or a part of its name, as `tokstep devices` shows them
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
    #[command(flatten)]
    limits: LimitsArgs,
    #[command(flatten)]
    kernels: KernelArgs,
}

/// What `--synthetic` takes.
pub fn help() -> String {
    format!(
        "Random weights of a known model's shapes and types instead of a file: how fast would it be, \
         and would it fit? What it writes is noise.\n\nNAME: {}\nTYPE: {} [default: q4_k_m]",
        synth::names().join(", "),
        synth::types().join(", ")
    )
}

impl SourceArgs {
    /// What rows of results call the model.
    pub fn name(&self) -> String {
        match (&self.synthetic, &self.model) {
            (Some(wish), _) => format!("synthetic {wish}"),
            (None, model) => model.clone().unwrap_or_default(),
        }
    }

    /// The MODEL, where it is no synthetic one.
    pub fn file(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The adapter asked for.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// The limits it is opened with.
    pub fn limits(&self) -> Limits {
        self.limits.limits
    }

    /// With `--gguf-out`, writes that file; whether there was one to write.
    pub fn write(&self) -> Result<bool> {
        let (Some(wish), Some(path)) = (&self.synthetic, &self.gguf_out) else {
            return Ok(false);
        };
        let gguf = synth::open(wish)?;
        let bar = progress::bytes("writing", gguf.file_bytes());
        let saved = gguf.save(path, &mut |n| bar.inc(n));
        bar.finish_and_clear();
        saved?;
        out::say(format_args!(
            "{}: {} bytes, random weights",
            path.display(),
            gguf.file_bytes()
        ));
        Ok(true)
    }

    /// Loads the model.
    pub fn engine(&self, options: EngineOptions) -> Result<Engine> {
        let device = self.device.clone();
        let Some(wish) = &self.synthetic else {
            let model = self.name();
            let kernels = self.kernels.clone();
            let args = ModelArgs {
                model,
                device,
                limits: self.limits,
                kernels,
            };
            return load::engine(&args, options);
        };
        let gguf = synth::open(wish)?;
        let options = self.kernels.put(EngineOptions {
            device,
            limits: self.limits.limits,
            ..options
        });
        load::under_bars(|progress| Engine::load_gguf(&gguf, &options, progress))
    }
}
