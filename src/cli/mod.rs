//! The command line: one file per command, flags that several commands share, and nothing that
//! the library could do.

mod bench;
mod chat;
mod devices;
mod doctor;
mod fit;
mod info;
pub mod interrupt;
mod json;
mod load;
pub mod out;
mod pace;
mod ppl;
mod progress;
mod prompt;
mod pull;
mod run;
mod sample;
mod stats;
mod synthetic;
mod text;
mod tune;
mod verify;

use clap::{Args, Parser, Subcommand};
use tokstep::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Runs large language models from one GGUF file on any GPU
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  tokstep chat -m smollm2
  tokstep run -m model.gguf -p 'Why is the sky blue?'
  tokstep bench -m model.gguf
  tokstep COMMAND --help";

/// How much is said on standard error.
#[derive(Args)]
pub struct LogArgs {
    /// Say more (-vv, -vvv: still more); TOKSTEP_LOG=tokstep=debug,wgpu=info for a finer choice
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Say nothing but errors; no progress bars
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

#[derive(Subcommand)]
pub enum Command {
    Run(run::RunArgs),
    Chat(chat::ChatArgs),
    Bench(bench::BenchArgs),
    Ppl(ppl::PplArgs),
    Info(info::InfoArgs),
    Devices(devices::DevicesArgs),
    Doctor(doctor::DoctorArgs),
    Tokenize(text::TokenizeArgs),
    Detokenize(text::DetokenizeArgs),
    Template(text::TemplateArgs),
    Pull(pull::PullArgs),
    Tune(tune::TuneArgs),
    Verify(verify::VerifyArgs),
}

impl Command {
    pub fn run(self) -> Result<()> {
        match self {
            Command::Run(args) => run::run(&args),
            Command::Chat(args) => chat::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Ppl(args) => ppl::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Devices(args) => devices::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Tokenize(args) => text::tokenize(&args),
            Command::Detokenize(args) => text::detokenize(&args),
            Command::Template(args) => text::template(&args),
            Command::Pull(args) => pull::run(&args),
            Command::Tune(args) => tune::run(&args),
            Command::Verify(args) => verify::run(&args),
        }
    }
}

/// Sends `tracing` events to standard error, as chatty as the flags say.
pub fn log(args: &LogArgs) {
    progress::set_quiet(args.quiet);
    let level = match (args.quiet, args.verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        (_, 2) => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = EnvFilter::builder()
        .with_env_var("TOKSTEP_LOG")
        .with_default_directive(level.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would report a closed standard error on standard error, and panic.
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .without_time()
        .with_target(args.verbose > 1)
        .init();
}
