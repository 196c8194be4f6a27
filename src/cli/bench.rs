//! `tokstep bench`: speed of prompt processing and of generation, in llama-bench's rows and
//! columns, with what the device had to read and how near its memory's speed that is.

use super::synthetic::SourceArgs;
use super::{explain, out, progress, stats};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use std::time::Instant;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions, Session};
use tokstep::{Error, Result};

/// Measure prompt processing (pp) and text generation (tg)
///
/// Rows and columns as llama-bench has them. Beside them: bytes read per token (weights and KV),
/// the device's copy bandwidth measured in the same run and the share of it that was reached,
/// dispatches per token, and the latency of a step.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep bench -m smollm2
  tokstep bench -m model.gguf -p 0 -n 64 -d 0,1024,4096
  tokstep bench -m model.gguf -p 128,512 -r 3 -o json
  tokstep bench --synthetic llama-3.1-8b:q4_k_m")]
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
    /// Times each test is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    output: Format,
    /// Afterwards, on stderr: where the time of a decode step goes, by kernel, at each depth
    #[arg(long)]
    explain: bool,
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

/// One row before it is measured.
#[derive(Clone, Copy)]
struct Test {
    prompt: u32,
    gen_: u32,
    depth: u32,
}

impl Test {
    /// llama-bench's name, e.g. `tg128 @ d4096`.
    fn name(self) -> String {
        let name = match self.prompt {
            0 => format!("tg{}", self.gen_),
            n => format!("pp{n}"),
        };
        match self.depth {
            0 => name,
            d => format!("{name} @ d{d}"),
        }
    }

    /// Tokens before what is measured: the depth, and one at least to begin generation from.
    fn before(self) -> u32 {
        match self.prompt {
            0 => self.depth.max(1),
            _ => self.depth,
        }
    }

    /// Positions of the context that it uses; one is for the token that is sampled but not counted.
    fn context(self) -> u32 {
        self.before() + self.prompt + self.gen_ + 1
    }
}

pub fn run(args: &BenchArgs) -> Result<()> {
    if args.model.write()? {
        return Ok(());
    }
    let mut tests = vec![];
    for &depth in &args.n_depth {
        let pp = args.n_prompt.iter().map(|&n| (n, 0));
        let tg = args.n_gen.iter().map(|&n| (0, n));
        let wanted = pp.chain(tg).filter(|&(p, g)| p + g > 0);
        tests.extend(wanted.map(|(prompt, gen_)| Test {
            prompt,
            gen_,
            depth,
        }));
    }
    if tests.is_empty() {
        return Err(Error::NothingToMeasure);
    }
    let need = tests.iter().map(|t| t.context()).max().unwrap_or(1);
    let need = need + if args.explain { explain::ROOM } else { 0 };
    let options = EngineOptions {
        context: Some(need),
        ..EngineOptions::default()
    };
    let engine = args.model.engine(options)?;
    if let Some(test) = tests.iter().find(|t| t.context() > engine.info().context) {
        return Err(Error::NotEnoughContext {
            what: test.name(),
            need: test.context() as usize,
            context: engine.info().context,
        });
    }
    let copy = engine.copy_bandwidth()?;
    let bar = progress::count("", tests.len() as u64 * (args.repetitions as u64 + 1));
    let mut rows = vec![];
    for &test in &tests {
        bar.set_message(test.name());
        let samples = measure(&engine, test, args.repetitions, &bar)?;
        let row = row(&engine, &args.model.name(), test, &samples, copy);
        // The bar must not stand in the table's way.
        bar.suspend(|| match args.output {
            Format::Md if rows.is_empty() => {
                out::line(md_head()).and_then(|()| out::line(md(&row)))
            }
            Format::Md => out::line(md(&row)),
            Format::Jsonl => out::line(json!(row)),
            Format::Csv if rows.is_empty() => {
                out::line(csv_head(&row)).and_then(|()| out::line(csv(&row)))
            }
            Format::Csv => out::line(csv(&row)),
            Format::Json => Ok(()),
        })?;
        rows.push(row);
    }
    bar.finish_and_clear();
    if args.output == Format::Json {
        out::line(serde_json::to_string_pretty(&rows).expect("strings and numbers"))?;
    }
    if args.explain {
        for &depth in &args.n_depth {
            explain::run(&engine, &synthetic(&engine, depth.max(1) as usize))?;
        }
    }
    Ok(())
}

/// What was measured of one test.
struct Samples {
    /// Nanoseconds of each repetition.
    ns: Vec<f64>,
    /// Milliseconds of every decode step of all repetitions; none of a pp test.
    step_ms: Vec<f64>,
}

/// Runs a test once to warm up and then `times` times.
fn measure(
    engine: &Engine,
    test: Test,
    times: u32,
    bar: &indicatif::ProgressBar,
) -> Result<Samples> {
    let before = test.before() as usize;
    let ids = synthetic(engine, before + test.prompt as usize);
    let mut session = engine.session()?;
    let mut samples = Samples {
        ns: vec![],
        step_ms: vec![],
    };
    if before > 0 {
        session.prefill(&ids[..before])?;
        session.generate(&greedy(1))?; // a prompt is through only when its answer begins
    }
    for repetition in 0..=times {
        session.rewind(before);
        let (ns, step_ms) = match test.prompt {
            0 => tg(&mut session, test.gen_)?,
            _ => (pp(&mut session, &ids[before..])?, vec![]),
        };
        bar.inc(1);
        if repetition > 0 {
            samples.ns.push(ns);
            samples.step_ms.extend(step_ms);
        }
    }
    Ok(samples)
}

/// Nanoseconds to process a prompt, until the token after it is there.
fn pp(session: &mut Session, ids: &[u32]) -> Result<f64> {
    let start = Instant::now();
    session.prefill(ids)?;
    session.generate(&greedy(1))?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// Nanoseconds of `n` decode steps, and milliseconds of each. The token before them comes out of
/// the prompt and is not counted.
fn tg(session: &mut Session, n: u32) -> Result<(f64, Vec<f64>)> {
    let mut generation = session.generate(&greedy(n + 1))?;
    let start = Instant::now();
    for piece in generation.by_ref() {
        piece?;
    }
    let ns = start.elapsed().as_nanos() as f64;
    Ok((ns, generation.stats().step_ms.clone()))
}

fn greedy(n: u32) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(n),
        sample: SampleOptions {
            temp: 0.0,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

/// A fixed sequence of ids, so that every run and device does the same work.
fn synthetic(engine: &Engine, n: usize) -> Vec<u32> {
    let tokenizer = engine.tokenizer();
    let vocab = tokenizer.n_vocab() as u64;
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % vocab) as u32
    };
    let first = tokenizer.bos().unwrap_or_else(&mut next);
    std::iter::once(first)
        .chain(std::iter::repeat_with(next))
        .take(n)
        .collect()
}

/// A measured row: llama-bench's field names where it has the field, then ours.
fn row(engine: &Engine, model: &str, test: Test, s: &Samples, copy: f64) -> Map<String, Value> {
    let info = engine.info();
    let tokens = (test.prompt + test.gen_) as f64;
    let rates: Vec<f64> = s.ns.iter().map(|ns| tokens / ns * 1e9).collect();
    let rate = stats::mean(&rates);
    // A step reads the weights once and the KV of every position before it.
    let positions = test.depth as f64 + test.gen_ as f64 / 2.0;
    let per_token =
        info.weight_bytes_per_token as f64 + info.kv_bytes_per_position as f64 * positions;
    let decode = test.prompt == 0;
    let only = |value: Value| if decode { value } else { Value::Null };
    let percentile = |p| only(json!(stats::percentile(&s.step_ms, p)));
    let fields = json!({
        "build_commit": concat!("tokstep-", env!("CARGO_PKG_VERSION")),
        "gpu_info": info.device,
        "backends": info.backend,
        "model_filename": model,
        "model_type": format!("{} {} {}", info.arch, short_count(info.n_params), info.file_type),
        "model_size": info.model_bytes,
        "model_n_params": info.n_params,
        "type_k": "f16",
        "type_v": "f16",
        "n_gpu_layers": -1,
        "n_prompt": test.prompt,
        "n_gen": test.gen_,
        "n_depth": test.depth,
        "test_time": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "avg_ns": stats::mean(&s.ns).round() as u64,
        "stddev_ns": stats::deviation(&s.ns).round() as u64,
        "avg_ts": rate,
        "stddev_ts": stats::deviation(&rates),
        "samples_ns": s.ns.iter().map(|&ns| ns as u64).collect::<Vec<_>>(),
        "samples_ts": rates,
        "test": test.name(),
        "bytes_per_token": only(json!(per_token.round() as u64)),
        "copy_gb_per_s": copy / 1e9,
        "percent_of_copy": only(json!(per_token * rate / copy * 100.0)),
        "dispatches_per_token": only(json!(info.dispatches_per_token)),
        "step_ms_p50": percentile(50.0),
        "step_ms_p95": percentile(95.0),
        "step_ms_p99": percentile(99.0),
    });
    match fields {
        Value::Object(map) => map,
        _ => unreachable!("an object was written above"),
    }
}

/// Columns of the table: head, width (negative: to the left).
const COLUMNS: [(&str, i32); 14] = [
    ("model", -30),
    ("size", 10),
    ("params", 10),
    ("backend", -10),
    ("ngl", 3),
    ("test", 15),
    ("t/s", 20),
    ("MB/token", 9),
    ("copy GB/s", 9),
    ("% copy", 6),
    ("disp/token", 10),
    ("p50 ms", 8),
    ("p95 ms", 8),
    ("p99 ms", 8),
];

fn md_line(cells: [String; COLUMNS.len()]) -> String {
    let cell = |(text, (_, width)): (String, (&str, i32))| match width {
        w if w < 0 => format!(" {text:<w$} ", w = -w as usize),
        w => format!(" {text:>w$} ", w = w as usize),
    };
    let cells: Vec<_> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    format!("|{}|", cells.join("|"))
}

fn md_head() -> String {
    let rule = COLUMNS.map(|(_, width)| match width {
        w if w < 0 => format!(" {} ", "-".repeat(-w as usize)),
        w => format!(" {}: ", "-".repeat(w as usize - 1)),
    });
    format!(
        "{}\n|{}|",
        md_line(COLUMNS.map(|(head, _)| head.into())),
        rule.join("|")
    )
}

fn md(row: &Map<String, Value>) -> String {
    let number = |key: &str, scale: f64, digits: usize| match row[key].as_f64() {
        Some(v) => format!("{:.digits$}", v * scale),
        None => "-".into(),
    };
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    md_line([
        text("model_type"),
        size(row["model_size"].as_u64().unwrap_or(0)),
        count(row["model_n_params"].as_u64().unwrap_or(0)),
        text("backends"),
        number("n_gpu_layers", 1.0, 0),
        text("test"),
        format!(
            "{} ± {}",
            number("avg_ts", 1.0, 2),
            number("stddev_ts", 1.0, 2)
        ),
        number("bytes_per_token", 1e-6, 2),
        number("copy_gb_per_s", 1.0, 2),
        number("percent_of_copy", 1.0, 1),
        number("dispatches_per_token", 1.0, 0),
        number("step_ms_p50", 1.0, 2),
        number("step_ms_p95", 1.0, 2),
        number("step_ms_p99", 1.0, 2),
    ])
}

/// Fields that fit into a CSV cell: llama-bench leaves the single samples to JSON, and so do we.
fn csv_fields(row: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    row.iter().filter(|(_, v)| !v.is_array())
}

fn csv_head(row: &Map<String, Value>) -> String {
    csv_fields(row)
        .map(|(k, _)| k.as_str())
        .collect::<Vec<_>>()
        .join(",")
}

fn csv(row: &Map<String, Value>) -> String {
    let cell = |(_, v): (_, &Value)| match v {
        Value::Null => "\"\"".into(),
        Value::String(s) => format!("\"{}\"", s.replace('"', "\"\"")),
        v => format!("\"{v}\""),
    };
    csv_fields(row).map(cell).collect::<Vec<_>>().join(",")
}

/// Bytes as llama-bench writes them.
fn size(bytes: u64) -> String {
    match bytes as f64 / (1u64 << 20) as f64 {
        mib if mib < 1024.0 => format!("{mib:.2} MiB"),
        mib => format!("{:.2} GiB", mib / 1024.0),
    }
}

/// Parameters as llama-bench writes them.
fn count(n: u64) -> String {
    match n as f64 {
        n if n < 1e9 => format!("{:.2} M", n / 1e6),
        n => format!("{:.2} B", n / 1e9),
    }
}

/// Parameters as in a model's name: 135M, 1.2B, 8B.
fn short_count(n: u64) -> String {
    match n as f64 {
        n if n < 1e6 => format!("{:.0}K", n / 1e3),
        n if n < 1e9 => format!("{:.0}M", n / 1e6),
        n if n < 9.95e9 => format!("{:.1}B", n / 1e9).replace(".0B", "B"),
        n => format!("{:.0}B", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contexts_of_tests() {
        let test = |prompt, gen_, depth| Test {
            prompt,
            gen_,
            depth,
        };
        assert_eq!(test(512, 0, 0).name(), "pp512");
        assert_eq!(test(0, 128, 4096).name(), "tg128 @ d4096");
        assert_eq!(test(0, 128, 0).context(), 130);
        assert_eq!(test(0, 128, 4096).context(), 4225);
        assert_eq!(test(512, 0, 64).context(), 577);
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(size(98_362_432), "93.81 MiB");
        assert_eq!(size(4_677_120_000), "4.36 GiB");
        assert_eq!(count(134_515_008), "134.52 M");
        assert_eq!(count(7_615_616_512), "7.62 B");
        assert_eq!(short_count(134_515_008), "135M");
        assert_eq!(short_count(8_030_261_248), "8B");
    }

    #[test]
    fn csv_quotes() {
        let Value::Object(row) = json!({"a": "x\"y", "b": [1], "c": 2.5, "d": null}) else {
            unreachable!()
        };
        assert_eq!(csv_head(&row), "a,c,d");
        assert_eq!(csv(&row), r#""x""y","2.5","""#);
    }
}
