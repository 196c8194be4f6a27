//! The stages of the device at work: limits, kernels, one token, speed.

use super::Doctor;
use super::file::AGAIN;
use super::stage::{Outcome, Whose};
use std::cell::RefCell;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions, fit};
use tokstep::gguf::Gguf;
use tokstep::gpu::{Gpu, Limits};
use tokstep::model::Model;
use tokstep::{Error, Result, synth};

/// Context of the trials, in positions.
const CONTEXT: u32 = 128;
/// Mixes whose made-up models try the kernels of the most usual weight types.
const MIXES: [&str; 4] = ["q4_k_m", "q8_0", "q4_0", "f16"];
/// Models up to so many weights are compared step by step themselves; larger ones would take minutes.
const SMALL: u64 = 1_000_000;
/// Share of the copy speed below which a GPU is worth a remark, in percent.
const SLOW: f64 = 10.0;

/// Looks at the device, opened with the limits of a profile, with the model where there is one; `wished`: one was asked
/// for; `software`: the device is the CPU.
pub fn stages(
    d: &mut Doctor,
    gguf: Option<&Gguf>,
    wished: bool,
    device: Option<&str>,
    profile: Limits,
    software: bool,
) -> Result<()> {
    let options = || EngineOptions {
        device: device.map(str::to_owned),
        limits: profile,
        context: Some(CONTEXT),
        cache: tokstep::models::pipelines_dir().ok(),
        proofs: tokstep::models::proofs_dir().ok(),
        ..EngineOptions::default()
    };
    d.stage("limits", Whose::Machine, &["device"], || {
        limits(gguf, device, profile)
    })?;
    // A file with which something is wrong proves nothing of kernels.
    let sound = gguf.filter(|_| d.went("format") && d.went("tokenizer"));
    d.stage("kernels", Whose::Machine, &["device", "limits"], || {
        kernels(sound, &options())
    })?;
    let needs: &[&str] = match wished {
        true => &["format", "tokenizer", "device", "limits", "kernels"],
        false => &["device", "limits", "kernels"],
    };
    // Loaded once for both.
    let engine = RefCell::new(None);
    d.stage("token", Whose::Machine, needs, || {
        let loaded = match (gguf, wished) {
            (Some(gguf), _) => Engine::load_gguf(gguf, &options(), &mut |_| ()),
            (None, false) => synth::probe(MIXES[0])
                .and_then(|probe| Engine::load_gguf(&probe, &options(), &mut |_| ())),
            (None, true) => return Outcome::Skipped("the file could not be opened".into()),
        };
        let outcome = loaded.and_then(|engine| Ok((token(&engine)?, engine)));
        match outcome {
            Ok((outcome, loaded)) => {
                engine.replace(Some(loaded));
                outcome
            }
            Err(e) => whose(gguf, &e),
        }
    })?;
    d.stage("speed", Whose::Machine, &["token"], || {
        match engine
            .borrow()
            .as_ref()
            .map(|e| speed(e, gguf.is_some(), software))
        {
            Some(Ok(outcome)) => outcome,
            Some(Err(e)) => Outcome::of(&e, device_advice(&e)),
            None => Outcome::Skipped("nothing was loaded".into()),
        }
    })
}

/// An error of what was loaded: errors of a file name it.
fn whose(gguf: Option<&Gguf>, e: &Error) -> Outcome {
    let text = e.to_string();
    let named = |g: &Gguf| text.contains(&*g.path().to_string_lossy());
    match gguf.is_some_and(named) {
        true => Outcome::FileFailed(text, AGAIN.into()),
        false => Outcome::of(e, device_advice(e)),
    }
}

/// What to do about an error of a device.
fn device_advice(e: &Error) -> &'static str {
    match e {
        Error::Verify { .. } | Error::NotFinite { .. } => {
            "the device computes wrongly: update its driver, or take another device with --device"
        }
        Error::Shader { .. } | Error::Bind { .. } => {
            "the driver refuses a shader: update it, take another device with --device, and report this"
        }
        Error::OutOfMemory { .. } | Error::NoRoom { .. } => {
            "close what else uses the device, or take a smaller model"
        }
        Error::BufferTooLarge { .. }
        | Error::ContextTooLarge { .. }
        | Error::RowTooLarge { .. } => {
            "take a smaller model, or a device with larger limits (--limits adapter: all that this one has)"
        }
        Error::DeviceStuck { .. } | Error::DeviceRefused { .. } => {
            "update the driver, look at the system's log (dmesg), or take another device with --device"
        }
        _ => "`tokstep run -v` shows more",
    }
}

/// Whether the device opens and has room for the model.
fn limits(gguf: Option<&Gguf>, device: Option<&str>, profile: Limits) -> Outcome {
    let gpu = match Gpu::open_limited(device, None, profile) {
        Ok(gpu) => gpu,
        Err(e) => return Outcome::of(&e, device_advice(&e)),
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let caps = &gpu.caps;
    let mut text = format!(
        "limits {profile}: bindings of {:.0} MiB, buffers of {:.0} MiB, {} invocations, subgroups {}",
        mib(caps.max_storage),
        mib(gpu.max_buffer),
        caps.max_lanes,
        match caps.subgroups {
            true => format!("of {} to {}", caps.subgroup_min, caps.subgroup_max),
            false => "none".into(),
        },
    );
    if let Some(memory) = gpu.memory {
        text += &format!(", {:.0} MiB left", mib(memory));
    }
    let Some(Ok(model)) = gguf.map(Model::from_gguf) else {
        return Outcome::Fine(text);
    };
    // What the load of the stages below says.
    match fit(&model, &gpu, CONTEXT) {
        Err(e) => Outcome::of(&e, device_advice(&e)),
        Ok(memory) => Outcome::Fine(format!(
            "{text}; the model takes {:.0} MiB and more with a longer context",
            mib(memory.total())
        )),
    }
}

/// Whether kernels compute what their CPU twins do. The one place that knows how that is tried.
fn kernels(gguf: Option<&Gguf>, options: &EngineOptions) -> Outcome {
    let options = EngineOptions {
        verify: true,
        ..options.clone()
    };
    let weights = |g: &Gguf| g.tensors().iter().map(|t| t.weights()).sum::<u64>();
    let mut steps = 0;
    let mut without: Vec<&str> = Vec::new();
    let own = gguf.filter(|g| weights(g) <= SMALL);
    let made = MIXES.iter().map(|mix| synth::probe(mix));
    let tried = made.map(|probe| verified(&probe?, &options));
    for verified in own.map(|g| verified(g, &options)).into_iter().chain(tried) {
        match verified {
            Ok((n, levers)) => {
                steps += n;
                without.extend(levers);
            }
            Err(e) => return whose(gguf, &e),
        }
    }
    let of = match own {
        Some(_) => "of this model and of ",
        None => "of ",
    };
    let text = format!(
        "{steps} plan steps {of}made-up ones ({}) agree with their CPU twins",
        MIXES.join(", ")
    );
    without.sort();
    without.dedup();
    match without.is_empty() {
        true => Outcome::Fine(text),
        false => Outcome::Note(
            format!(
                "{text}; variants in quarantine are done without: {}",
                without.join(", ")
            ),
            "update the driver; `tokstep devices` lists what it computes wrongly".into(),
        ),
    }
}

/// Plan steps compared over a short answer, and what the plan does without.
fn verified(gguf: &Gguf, options: &EngineOptions) -> Result<(u64, Vec<&'static str>)> {
    let engine = Engine::load_gguf(gguf, options, &mut |_| ())?;
    answer(&engine, 2)?;
    Ok((
        engine.verified().unwrap_or(0),
        engine.info().without.clone(),
    ))
}

/// Milliseconds to the first token, and of each step after it, of `n` tokens.
fn answer(engine: &Engine, n: u32) -> Result<(f64, Vec<f64>)> {
    let mut session = engine.session()?;
    let vocab = engine.tokenizer().n_vocab() as u32;
    let first = engine.tokenizer().bos().unwrap_or(0);
    let ids: Vec<u32> = std::iter::once(first)
        .chain((1..8).map(|i| (i * 7919) % vocab.max(1)))
        .collect();
    session.prefill(&ids)?;
    let greedy = GenerateOptions {
        max_tokens: Some(n),
        sample: SampleOptions {
            temp: 0.0,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let mut answer = session.generate(&greedy)?;
    for piece in answer.by_ref() {
        piece?;
    }
    Ok((answer.stats().ttft_ms, answer.stats().step_ms.clone()))
}

fn token(engine: &Engine) -> Result<Outcome> {
    let (ms, _) = answer(engine, 1)?;
    let load = engine.info().load_ms;
    Ok(Outcome::Fine(format!(
        "loaded in {load:.0} ms, the first token after {ms:.1} ms"
    )))
}

/// Speed of decode steps against what the device can copy.
fn speed(engine: &Engine, model: bool, software: bool) -> Result<Outcome> {
    let (copy, peak) = (engine.copy_bandwidth()?, engine.peak_flops()?);
    let yard = format!("{:.1} GB/s copied, {:.0} GFLOP/s", copy / 1e9, peak / 1e9);
    if !model {
        return Ok(Outcome::Fine(format!(
            "{yard}; with -m: how near a model comes to that"
        )));
    }
    let n = 33;
    let (_, mut ms) = answer(engine, n)?;
    ms.sort_by(f64::total_cmp);
    let Some(ms) = ms.get(ms.len() / 2) else {
        return Ok(Outcome::Skipped("no step was decoded".into()));
    };
    let bytes = engine.info().weight_bytes_per_token as f64;
    let percent = bytes / (ms / 1e3) / copy * 100.0;
    let text = format!(
        "{:.1} tokens per second, {percent:.1} % of what copying would allow ({yard})",
        1e3 / ms
    );
    // A software device's limit is arithmetic, and a tiny model's the way to the device and back.
    let small = bytes < 50e6;
    match percent < SLOW && !small && !software {
        true => Ok(Outcome::Note(
            text,
            "far below: is something else using the device, or does it save power? `tokstep bench --explain` shows \
             where the time goes, `tokstep tune` measures kernels anew"
                .into(),
        )),
        false => Ok(Outcome::Fine(text)),
    }
}
