//! The measuring of one test: a run to warm up, then as many as asked for.

use super::test::Test;
use std::time::Instant;
use tokstep::Result;
use tokstep::engine::{Engine, GenerateOptions, SampleOptions, Session};
use tokstep::gpu::HostTimes;

/// What was measured of one test.
#[derive(Default)]
pub struct Samples {
    /// Nanoseconds of each repetition.
    pub ns: Vec<f64>,
    /// Milliseconds of every decode step, by repetition; none of a pp test.
    pub step_ms: Vec<Vec<f64>>,
    /// What the host spent on each repetition's decode steps.
    pub host: Vec<HostTimes>,
    /// Dispatches of all of them.
    pub dispatches: u64,
}

impl Samples {
    /// Milliseconds of every step of all repetitions.
    pub fn all_steps(&self) -> Vec<f64> {
        self.step_ms.concat()
    }
}

/// The speeds that figures are held against.
#[derive(Clone, Copy)]
pub struct Yardsticks {
    /// Bytes per second that a copy reads.
    pub copy: f64,
    /// Floating-point operations per second, two to a multiply-add.
    pub peak: f64,
}

impl Yardsticks {
    pub fn measure(engine: &Engine) -> Result<Yardsticks> {
        Ok(Yardsticks {
            copy: engine.copy_bandwidth()?,
            peak: engine.peak_flops()?,
        })
    }
}

/// Runs a test once to warm up and then `times` times; `tick` after each.
pub fn measure(engine: &Engine, test: Test, times: u32, tick: &dyn Fn()) -> Result<Samples> {
    let before = test.before() as usize;
    let ids = synthetic(engine, before + test.prompt as usize);
    let mut sessions = (0..test.parallel)
        .map(|_| engine.session())
        .collect::<Result<Vec<_>>>()?;
    if before > 0 {
        for session in &mut sessions {
            session.prefill(&ids[..before])?;
            session.generate(&greedy(1))?; // a prompt is through only when its answer begins
        }
    }
    let mut samples = Samples::default();
    for repetition in 0..=times {
        sessions.iter_mut().for_each(|s| s.rewind(before));
        let one = match test.decodes() {
            true => decode(engine, &mut sessions, test.gen_)?,
            false => pp(&mut sessions[0], &ids[before..])?,
        };
        tick();
        if repetition > 0 {
            samples.ns.extend(one.ns);
            samples.step_ms.extend(one.step_ms);
            samples.host.extend(one.host);
            samples.dispatches += one.dispatches;
        }
    }
    Ok(samples)
}

/// Time to process a prompt, until the token after it is there.
fn pp(session: &mut Session, ids: &[u32]) -> Result<Samples> {
    let start = Instant::now();
    session.prefill(ids)?;
    session.generate(&greedy(1))?;
    Ok(Samples {
        ns: vec![start.elapsed().as_nanos() as f64],
        ..Samples::default()
    })
}

/// `n` decode steps of all sequences together. The token before them comes out of the prompt and is
/// not counted.
fn decode(engine: &Engine, sessions: &mut [Session], n: u32) -> Result<Samples> {
    let mut answers = sessions
        .iter_mut()
        .map(|s| s.generate(&greedy(n + 1)))
        .collect::<Result<Vec<_>>>()?;
    let dispatches = || engine.counts()[4];
    let (host, recorded) = (engine.host_times(), dispatches());
    let start = Instant::now();
    for _ in 0..=n {
        for answer in &mut answers {
            // It goes on after end tokens, and the context has room.
            let piece = answer.next().transpose()?;
            assert!(piece.is_some(), "an answer ended early");
        }
    }
    let ns = start.elapsed().as_nanos() as f64;
    // The steps of a submit are timed by the answer that asked for it.
    let step_ms = answers.iter().flat_map(|a| a.stats().step_ms.clone());
    Ok(Samples {
        ns: vec![ns],
        step_ms: vec![step_ms.collect()],
        host: vec![engine.host_times().since(host)],
        dispatches: dispatches() - recorded,
    })
}

/// Decode steps behind `prompt` in all of the engine's slots, to see the host's part.
pub fn steps(engine: &Engine, prompt: &[u32], slots: u32, n: u32) -> Result<Samples> {
    let mut sessions = (0..slots)
        .map(|_| engine.session())
        .collect::<Result<Vec<_>>>()?;
    for session in &mut sessions {
        session.prefill(prompt)?;
    }
    decode(engine, &mut sessions, n)
}

/// `n` tokens, the likeliest each, without an end before that.
pub fn greedy(n: u32) -> GenerateOptions {
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
pub fn synthetic(engine: &Engine, n: usize) -> Vec<u32> {
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
