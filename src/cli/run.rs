//! `tokstep run`: one answer, streamed, or as one JSON object.

use super::json::{self, Answer, Timings};
use super::load::{self, Context, ModelArgs};
use super::pace::{self, PaceArgs};
use super::prompt::PromptArgs;
use super::sample::SampleArgs;
use super::{interrupt, out, progress};
use clap::Args;
use tokstep::Result;
use tokstep::engine::{EngineOptions, Stats, Stop};

/// Answer one prompt
///
/// The model's chat template is applied when it has one. Without -p, --prompt-file or
/// --prompt-tokens the prompt is read from standard input. Ctrl-C ends the answer.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep run -m smollm2 -p 'Why is the sky blue?'
  tokstep run -m model.gguf --raw -p 'Once upon a time' -n 100 --seed 7
  tokstep run -m model.gguf --system 'Answer in one word.' --temp 0 < question.txt
  tokstep run -m model.gguf --prompt-tokens 1,2,3 -n 16 --json")]
pub struct RunArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Maximum context in tokens; auto: the largest that fits into memory [default: the model's, as far as
    /// it fits, and its cache at most 1 GiB]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    context: Option<Context>,
    /// Print one JSON object: prompt_tokens, tokens, text, stop, seed, device, timings
    #[arg(long)]
    json: bool,
    /// Compare every plan step on the GPU with its CPU twin; the first that differs is an error
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    prompt: PromptArgs,
    #[command(flatten)]
    sample: SampleArgs,
    #[command(flatten)]
    pace: PaceArgs,
}

pub fn run(args: &RunArgs) -> Result<()> {
    let given = args.prompt.read()?;
    let engine = load::engine(
        &args.model,
        EngineOptions {
            verify: args.verify,
            pace: args.pace.options(),
            ..load::sized(args.context)
        },
    )?;
    let ids = args.prompt.ids(&given, &engine)?;
    let mut session = engine.session()?;
    let options = args.sample.options();
    let (mut tokens, mut text) = (vec![], String::new());
    let (mut stop, mut stats) = (Stop::Cancelled, Stats::default());
    interrupt::arm();
    if progress::prefill(&mut session, &ids)? {
        let mut generation = session.generate(&options)?;
        while let Some(piece) = generation.next() {
            let piece = piece?;
            if !args.json {
                out::text(&piece.text)?;
            }
            tokens.extend(piece.ids);
            text += &piece.text;
            if interrupt::pressed() {
                generation.cancel();
            }
        }
        stop = generation.stop().unwrap_or(stop);
        stats = generation.stats().clone();
    }
    if stop == Stop::Eos {
        // The ids are those of the text; the end token is told by `stop`.
        tokens.pop();
    }
    if stop == Stop::Context {
        tracing::warn!(
            "the context of {} tokens is full: the answer ends here; a larger -c gives it more room",
            engine.info().context
        );
    }
    if args.json {
        let answer = Answer {
            prompt_tokens: ids.len(),
            tokens,
            text,
            stop: stop.name(),
            seed: options.sample.seed,
            device: engine.info().device.clone(),
            timings: Timings::new(engine.info(), &stats),
            pace: engine.pace().map(|report| args.pace.object(&report)),
        };
        out::line(serde_json::to_string(&answer).expect("strings and numbers"))?;
    } else if !text.ends_with('\n') {
        out::line("")?;
    }
    if let Some(steps) = engine.verified() {
        out::say(format_args!(
            "verified: {steps} plan steps on {} agree with their CPU twins",
            engine.info().device
        ));
    }
    tracing::info!(
        "{} prompt tokens, {:.2} tok/s; first token after {:.0} ms; {} tokens, {:.2} tok/s; ended by {}",
        ids.len(),
        json::prompt_rate(&stats),
        stats.ttft_ms,
        stats.tokens,
        json::decode_rate(&stats),
        stop.name(),
    );
    if let Some(report) = engine.pace() {
        tracing::info!("{}", pace::sentence(&report));
    }
    Ok(())
}
