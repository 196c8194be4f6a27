//! `tokstep verify`: does this device compute what it should? What does not goes into quarantine.

use std::path::Path;
use std::time::Instant;

use super::{interrupt, load, out, progress};
use clap::Args;
use serde_json::json;
use tokstep::engine::{Caught, Engine, EngineOptions, GenerateOptions, Quarantine, Stop, Verified};
use tokstep::{Error, Result, models, selftest};

/// Test every kernel on a device against the CPU, and keep what is wrong out of use
///
/// Every variant of every kernel that the device could use runs many cases of odd sizes, again and again, since
/// some drivers err only now and then. A variant that gives a wrong number once is put into quarantine: it is
/// not used on this device any more, until the driver or Tokstep changes, or --forget. With a model, each step of
/// its plans is compared too, on its own weights. Ctrl-C ends it with a report of what was run so far and exit code
/// 130 (1 if anything was wrong); what was not run to the end does not count as right.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep verify
  tokstep verify --repeat 100 --json
  tokstep verify -m model.gguf")]
pub struct VerifyArgs {
    /// Adapter to test: its number or a part of its name, as `tokstep devices` shows them
    #[arg(long, env = "TOKSTEP_DEVICE")]
    device: Option<String>,
    /// Also compare each step of this model: path of a GGUF file, or a known name
    #[arg(short, long, value_parser = load::not_empty())]
    model: Option<String>,
    /// How often each case is run
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// Take everything out of quarantine first
    #[arg(long)]
    forget: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: load::LimitsArgs,
    #[command(flatten)]
    fault: load::FaultArg,
}

pub fn run(args: &VerifyArgs) -> Result<()> {
    let start = Instant::now();
    let options = EngineOptions {
        device: args.device.clone(),
        cache: models::pipelines_dir().ok(),
        proofs: models::proofs_dir().ok(),
        fault: args.fault.fault.clone(),
        limits: args.limits.limits,
        ..EngineOptions::default()
    };
    // A model that is not there is told before the long run.
    let path = args.model.as_deref().map(load::path).transpose()?;
    if args.forget {
        quarantine(&options)?.forget();
    }
    interrupt::arm();
    let bar = progress::count("testing kernels", 0);
    let verified = Engine::verify_device(&options, args.repeat, &mut |part, i, n| {
        bar.set_length(n as u64);
        bar.set_position(i as u64);
        bar.set_message(part);
        !interrupt::pressed()
    });
    bar.finish_and_clear();
    let mut verified = verified?;
    let mut model = None;
    verified.interrupted |= path.is_some() && interrupt::pressed();
    let ended = verified.interrupted || verified.error.is_some();
    if let (Some(path), Some(name), false) = (&path, &args.model, ended) {
        model = Some(steps_of(name, path, &options));
        verified.interrupted = matches!(model, Some(Ok(Steps { whole: false, .. })));
        verified.quarantined = quarantine(&options)?.all();
    }
    // What was found on kernels is told whatever became of the device and the model.
    report(args, &verified, model.as_ref(), start)?;
    if let Some(e) = verified.error {
        return Err(e);
    }
    if let Some(Err(e)) = model {
        return Err(e);
    }
    match wrong(&verified) {
        0 if verified.interrupted => Err(Error::Interrupted {
            what: "not all was tested, and what was not does not count as right",
        }),
        0 => Ok(()),
        variants => Err(Error::WrongVariants {
            variants,
            device: verified.device,
            kept: verified.kept,
        }),
    }
}

fn quarantine(o: &EngineOptions) -> Result<Quarantine> {
    let all = tokstep::gpu::adapters(o.device.as_deref())?;
    let a = all.iter().find(|a| a.picked);
    let a = a.unwrap_or_else(|| unreachable!("one adapter is picked"));
    let dir = o.proofs.as_deref();
    Ok(Quarantine::of(dir, &a.name, &a.driver, &a.backend))
}

/// Steps of a model that were compared.
struct Steps {
    n: u64,
    /// All that there were to be.
    whole: bool,
}

/// Runs a prompt and a few tokens, step by step on both sides.
fn steps_of(model: &str, path: &Path, options: &EngineOptions) -> Result<Steps> {
    let options = EngineOptions {
        verify: true,
        context: Some(512),
        ..options.clone()
    };
    let engine = load::under_bars(|progress| Engine::load(path, &options, progress))?;
    let found = compared(&engine);
    if let Err(Error::Verify {
        shader,
        label,
        detail,
        finite: true,
        ..
    }) = &found
    {
        let mut q = quarantine(&options)?;
        q.catch_named(shader, &format!("step {label} of {model}: {detail}"));
        q.save();
    }
    found
}

fn compared(engine: &Engine) -> Result<Steps> {
    let mut session = engine.session()?;
    let n = engine.tokenizer().n_vocab() as u32;
    let eight = GenerateOptions {
        max_tokens: Some(8),
        ignore_eos: true,
        ..Default::default()
    };
    // A chunk of a few columns, then steps of one.
    let ids = [1 % n, 2 % n, 3 % n, 5 % n, 7 % n];
    let mut whole = session.prefill_while(&ids, &|_| !interrupt::pressed())?;
    if whole {
        let mut answer = session.generate(&eight)?;
        while let Some(piece) = answer.next() {
            piece?;
            if interrupt::pressed() {
                answer.cancel();
            }
        }
        whole = !matches!(answer.stop(), Some(Stop::Cancelled));
    }
    drop(session);
    let n = engine.verified().unwrap_or(0);
    Ok(Steps { n, whole })
}

/// Variants that failed in this run.
fn wrong(v: &Verified) -> usize {
    let mut all: Vec<_> = v.failures.iter().map(|f| &f.shader).collect();
    all.sort();
    all.dedup();
    all.len()
}

fn report(
    args: &VerifyArgs,
    v: &Verified,
    model: Option<&Result<Steps>>,
    start: Instant,
) -> Result<()> {
    let steps = model.and_then(|m| m.as_ref().ok());
    let seconds = start.elapsed().as_secs_f64();
    let caught = |c: &Caught| json!({"variant": c.variant, "evidence": c.evidence});
    if args.json {
        let parts = v.parts.iter().map(
            |p| json!({"part": p.name, "cases": p.cases, "variants": p.variants, "runs": p.runs}),
        );
        let failures = v.failures.iter().map(|f| {
            json!({"variant": f.shader.to_string(), "case": f.case, "run": f.run, "detail": f.detail})
        });
        return out::line(json!({
            "device": v.device,
            "driver": v.driver,
            "repeat": args.repeat,
            "parts": parts.collect::<Vec<_>>(),
            "failures": failures.collect::<Vec<_>>(),
            "kept": v.kept,
            "quarantined": v.quarantined.iter().map(caught).collect::<Vec<_>>(),
            "error": v.error.as_ref().map(Error::to_string),
            "model_steps": steps.map(|s| s.n),
            "model_error": model.and_then(|m| m.as_ref().err()).map(Error::to_string),
            "interrupted": v.interrupted,
            "seconds": seconds,
        }));
    }
    out::line(format_args!("{} ({})", v.device, v.driver))?;
    for p in &v.parts {
        let of = |f: &&selftest::Failure| part_of(f.shader.kernel) == p.name;
        let failed = v.failures.iter().filter(of).count();
        let runs = match p.runs == args.repeat {
            true => format!("{} runs each", p.runs),
            false => format!("{} of {} runs each", p.runs, args.repeat),
        };
        let verdict = match failed {
            0 if p.runs < args.repeat => "nothing wrong so far".to_string(),
            0 => "right".to_string(),
            n => format!("WRONG {n} times"),
        };
        out::line(format_args!(
            "  {:12} {:5} cases, {:4} variants, {runs}: {verdict}",
            p.name, p.cases, p.variants
        ))?;
    }
    for f in v.failures.iter().take(10) {
        out::line(format_args!("  wrong: {f}"))?;
    }
    if v.failures.len() > 10 {
        out::line(format_args!(
            "  and {} more (--json: all)",
            v.failures.len() - 10
        ))?;
    }
    if let Some(Steps { n, .. }) = steps {
        out::line(format_args!("  the model: {n} steps compared, all right"))?;
    }
    if v.interrupted {
        let parts = selftest::PARTS.len();
        let done = v.parts.iter().filter(|p| p.runs == args.repeat).count();
        out::line(format_args!(
            "  interrupted: {done} of {parts} parts were run to the end"
        ))?;
    }
    for c in &v.quarantined {
        out::line(format_args!("  in quarantine: {c}"))?;
    }
    out::line(format_args!("  {seconds:.1} s"))
}

/// The part of the table that has a kernel's cases.
fn part_of(kernel: &str) -> &str {
    match kernel {
        "matvec2" | "matvec_rows2" => "pairs",
        "rms_norm" | "post_norm" => "norms",
        "attention_rows" | "attn_combine" => "attention",
        "penalize" | "logits_part" | "sample" => "sampling",
        other => other,
    }
}
