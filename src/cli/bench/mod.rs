//! `tokstep bench`: speed of prompt processing and of generation, in llama-bench's rows and columns,
//! with what the device had to read and to compute and how near that is to what it can.

mod canvas;
mod explain;
mod kernels;
mod latencies;
mod log;
mod measure;
mod plot;
mod row;
mod soak_plot;
mod sustain;
mod table;
mod test;
mod window;

use super::pace::{self, PaceArgs};
use super::synthetic::SourceArgs;
use super::{load, out, progress};
use clap::{Args, ValueEnum};
use measure::Yardsticks;
use row::Row;
use serde_json::json;
use std::path::PathBuf;
use test::Test;
use tokstep::engine::{Engine, EngineOptions};
use tokstep::plan::sizes::RING_LEN;
use tokstep::{Error, Result};

/// Measure prompt processing (pp) and text generation (tg)
///
/// Rows and columns as llama-bench has them. Beside them: the bytes of weights and of KV that a token
/// must read, and how much that is of the device's copy bandwidth; the share of its multiply-add rate
/// that was reached (both rates are measured in the same run); the latencies of decode steps. CSV and
/// JSON have more fields, among them the host's time per step. `tg128 x8` is 8 sequences in one step;
/// its t/s is of all together.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep bench -m smollm2
  tokstep bench -m model.gguf -p 0 -n 64 -d 0,1024,4096 --plot latency.svg
  tokstep bench -m model.gguf -p 0 -n 32 --parallel 1,2,4,8,9,16
  tokstep bench -m model.gguf -p 128,512 -r 3 -o json --log runs.jsonl
  tokstep bench --synthetic llama-3.1-8b:q4_k_m
  tokstep bench --kernels --shapes qwen3-0.6b --types q8_0
  tokstep bench -m model.gguf --sustain 30 --plot soak.svg --temp-limit 80")]
pub struct BenchArgs {
    #[command(flatten)]
    model: SourceArgs,
    /// Prompt lengths to process; 0: none
    #[arg(
        short = 'p',
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "512",
        value_parser = tokens()
    )]
    n_prompt: Vec<u32>,
    /// Numbers of tokens to generate; 0: none
    #[arg(
        short = 'n',
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "128",
        value_parser = tokens()
    )]
    n_gen: Vec<u32>,
    /// Tokens in the context before each test
    #[arg(
        short = 'd',
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "0",
        value_parser = tokens()
    )]
    n_depth: Vec<u32>,
    /// Numbers of sequences that generate in one step; the model is loaded anew for each
    #[arg(
        long,
        visible_alias = "npl",
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    parallel: Vec<u32>,
    /// Decode steps in one submit; latencies are means over a submit, so 1 shows single steps
    #[arg(long, value_name = "N", default_value_t = EngineOptions::default().steps_per_submit,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RING_LEN)))]
    steps_per_submit: u32,
    /// Times each test is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    output: Format,
    /// Afterwards, on stderr: where the time of a decode step goes, at each depth: by kernel, the
    /// largest losses, the host's part
    #[arg(long)]
    explain: bool,
    /// Draw the latency of every decode step into an SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Instead of a model, time each of its matrix products alone: one line for every weight type, shape and
    /// number of columns (as they are cut unmeasured, see `tokstep tune`)
    #[arg(long, group = "source", conflicts_with_all =
          ["n_prompt", "n_gen", "n_depth", "parallel", "steps_per_submit", "explain", "plot", "gguf_out", "no_tune", "max_tps", "power_limit", "temp_limit", "sensors"])]
    kernels: bool,
    /// With --kernels: whose shapes, as --synthetic names them
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "llama-3.2-1b,llama-3.1-8b",
        conflicts_with_all = ["model", "synthetic"]
    )]
    shapes: Vec<String>,
    /// With --kernels: types, as --synthetic names them
    #[arg(
        long,
        value_name = "TYPE,...",
        value_delimiter = ',',
        default_value = "q4_k_m,q8_0,f16",
        conflicts_with_all = ["model", "synthetic"]
    )]
    types: Vec<String>,
    /// With --kernels: numbers of columns; one is a decode step, many are a prompt
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,8,128",
        conflicts_with_all = ["model", "synthetic"],
        value_parser = clap::value_parser!(u32).range(1..=1024)
    )]
    columns: Vec<u32>,
    /// Append the run, its configuration and results, as one line of JSON to a file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Instead of single tests, generate for so many minutes: laps of -n tokens after -d, again and again;
    /// speed, latency, memory, temperature and power window by window. Ctrl-C ends it with the summary
    #[arg(long, value_name = "MINUTES", value_parser = positive, allow_negative_numbers = true,
          conflicts_with_all = ["n_prompt", "repetitions", "explain", "kernels", "gguf_out"])]
    sustain: Option<f64>,
    /// With --sustain: seconds of a window [default: a tenth of the whole]
    #[arg(long, value_name = "SECONDS", value_parser = positive, allow_negative_numbers = true,
          requires = "sustain")]
    window: Option<f64>,
    #[command(flatten)]
    pace: PaceArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(v) if v > 0.0 && v <= 1e6 => Ok(v),
        _ => Err("a number above 0, at most a million, is needed".into()),
    }
}

/// A number of tokens no context exceeds, so that sums of them stay numbers.
fn tokens() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=1 << 24)
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Md,
    Csv,
    Json,
    Jsonl,
}

pub fn run(args: &BenchArgs) -> Result<()> {
    if args.kernels {
        return kernels::run(args);
    }
    if let Some(minutes) = args.sustain {
        return sustain::run(args, minutes);
    }
    if args.model.write()? {
        return Ok(());
    }
    let parallel = once(&args.parallel);
    let tests = test::all(&args.n_prompt, &args.n_gen, &args.n_depth, &parallel)?;
    if args.plot.is_some() && !tests.iter().any(|t| t.decodes()) {
        return Err(Error::NothingToPlot);
    }
    // Better now than after all is measured.
    let log = args.log.as_deref().map(log::Log::open).transpose()?;
    args.plot.as_deref().map_or(Ok(()), canvas::check)?;

    let bar = progress::count("", tests.len() as u64 * (u64::from(args.repetitions) + 1));
    let mut done = Done::default();
    let mut yard = None;
    let mut last = None;
    for (i, &slots) in parallel.iter().enumerate() {
        // Prompts are measured with the first load.
        let now = |t: &&Test| match t.decodes() {
            true => t.parallel == slots,
            false => i == 0,
        };
        let now: Vec<Test> = tests.iter().filter(now).copied().collect();
        if now.is_empty() {
            continue;
        }
        drop(last.take()); // one model at a time
        let engine = load(args, slots, &now)?;
        let yard = match yard {
            Some(yard) => yard,
            None => *yard.insert(Yardsticks::measure(&engine)?),
        };
        for test in now {
            bar.set_message(test.name());
            let samples = measure::measure(&engine, test, args.repetitions, &|| bar.inc(1))?;
            let row = row::row(engine.info(), &args.model.name(), test, &samples, yard);
            // The bar must not stand in the table's way.
            bar.suspend(|| print(args.output, &row, done.rows.is_empty()))?;
            done.rows.push(row);
            if test.decodes() {
                done.series.push(plot::Series {
                    name: test.name(),
                    step_ms: samples.step_ms,
                });
            }
        }
        if args.explain {
            for &depth in &args.n_depth {
                let prompt = measure::synthetic(&engine, depth.max(1) as usize);
                bar.suspend(|| explain::run(&engine, &prompt, slots, yard))?;
            }
        }
        if let Some(report) = engine.pace() {
            bar.suspend(|| out::say(format_args!("{}", pace::sentence(&report))));
        }
        last = Some(engine);
    }
    bar.finish_and_clear();
    match (args.output, done.rows.first()) {
        (Format::Md, Some(row)) => out::line(format_args!("\n{}", table::md_foot(row)))?,
        (Format::Json, _) => {
            out::line(serde_json::to_string_pretty(&done.rows).expect("strings and numbers"))?;
        }
        _ => {}
    }
    match (last, yard) {
        (Some(engine), Some(yard)) => keep(args, &engine, log, yard, &done),
        _ => Ok(()),
    }
}

/// What was measured so far.
#[derive(Default)]
struct Done {
    rows: Vec<Row>,
    series: Vec<plot::Series>,
}

/// Loads the model with room for these tests in each of `slots` sequences.
fn load(args: &BenchArgs, slots: u32, tests: &[Test]) -> Result<Engine> {
    let need = tests.iter().map(|t| t.context()).max().unwrap_or(1);
    // Explaining goes on from the depths, whatever the tests are.
    let depth = args.n_depth.iter().max().map_or(1, |d| (*d).max(1));
    let explain = if args.explain {
        depth + explain::ROOM
    } else {
        0
    };
    let options = EngineOptions {
        context: Some(need.max(explain)),
        slots,
        steps_per_submit: args.steps_per_submit,
        pace: args.pace.options(),
        ..EngineOptions::default()
    };
    let engine = args.model.engine(options)?;
    match tests.iter().find(|t| t.context() > engine.info().context) {
        None => Ok(engine),
        Some(test) => Err(Error::NotEnoughContext {
            what: test.name(),
            need: test.context() as usize,
            context: engine.info().context,
        }),
    }
}

/// Prints a row as soon as it is there, where the format allows.
fn print(format: Format, row: &Row, first: bool) -> Result<()> {
    match format {
        Format::Md if first => out::line(table::md_head()),
        Format::Csv if first => out::line(table::csv_head(row)),
        _ => Ok(()),
    }?;
    match format {
        Format::Md => out::line(table::md(row)),
        Format::Csv => out::line(table::csv(row)),
        Format::Jsonl => out::line(json!(row)),
        Format::Json => Ok(()),
    }
}

/// Writes the plot and the log's line.
fn keep(
    args: &BenchArgs,
    engine: &Engine,
    log: Option<log::Log>,
    yard: Yardsticks,
    done: &Done,
) -> Result<()> {
    let info = engine.info();
    if let Some(path) = &args.plot {
        let title = [
            format!(
                "{} {}: latency of decode steps",
                info.model_name, info.file_type
            ),
            format!("{}, {}; {}", info.device, info.driver, row::build()),
        ];
        let title = title.map(|line| out::clean(&line));
        plot::write(path, &title, args.steps_per_submit, &done.series)?;
    }
    if let Some(mut log) = log {
        let files = match args.model.file() {
            Some(model) => log::files(model, &load::path(model)?)?,
            None => json!([]), // a synthetic model: its name stands among the flags
        };
        log.append(&log::line(info, files, yard, &done.rows))?;
    }
    Ok(())
}
/// Numbers without those that were there before.
fn once(all: &[u32]) -> Vec<u32> {
    let mut seen = Vec::new();
    for n in all {
        if !seen.contains(n) {
            seen.push(*n);
        }
    }
    seen
}
