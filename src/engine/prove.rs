//! Variants are proven before they are used: those of a plan that are not known to be right on this device
//! run their cases against the CPU twins, what fails goes into quarantine, and a plan is made that does
//! without it. `tokstep verify` runs the whole table, many times over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::blame;
use super::quarantine::{Caught, Quarantine};
use crate::gpu::Gpu;
use crate::kernel::choose::LEVERS;
use crate::kernel::{Caps, Shader};
use crate::plan::{Plan, Program};
use crate::selftest::{self, Failure};
use crate::{Error, Result};

/// Repetitions before the first use of a variant.
const QUICK: u32 = 3;
/// Levers pulled at once, at most.
const MOST_LEVERS: usize = 4;

/// A program whose variants are all proven.
pub(super) struct Proven {
    pub program: Program,
    /// What it does without.
    pub levers: Vec<&'static str>,
    /// What is in quarantine on this device.
    pub quarantined: Vec<Caught>,
}

impl Proven {
    /// A program of which nobody asked whether it is right.
    pub fn without_proof(program: Program) -> Proven {
        Proven {
            program,
            levers: Vec::new(),
            quarantined: Vec::new(),
        }
    }
}

/// All distinct variants of a program.
fn variants(p: &Program) -> BTreeSet<Shader> {
    let plans = [&p.decode, &p.prefill, &p.logits];
    let steps = plans.into_iter().flat_map(Plan::steps);
    steps.map(|s| s.shader.clone()).collect()
}

/// From a program to one whose variants are right on this device. `build` makes the program for other caps,
/// which the device has from then on. `progress(done, total)` counts variants.
pub(super) fn prove(
    gpu: &mut Arc<Gpu>,
    program: Program,
    build: &dyn Fn(&Caps) -> Result<Program>,
    quarantine: &mut Quarantine,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<Proven> {
    let all = gpu.caps.clone();
    let mut proven = Proven::without_proof(program);
    // What cannot be tested is not used either, but nothing is held against it at the next load.
    let mut untested = BTreeMap::new();
    loop {
        let used = variants(&proven.program);
        let caught = used.iter().find_map(|s| quarantine.caught(s));
        // Who is at fault is named before who only suffers from it.
        let caught = caught.or_else(|| used.iter().find_map(|s| untested.get(s).cloned()));
        if let Some(caught) = caught {
            let bad = |s: &Shader| quarantine.caught(s).is_some() || untested.contains_key(s);
            let (program, caps, levers) = around(&all, build, &bad, &caught, &gpu.name)?;
            proven.program = program;
            proven.levers = levers;
            if let Some(gpu) = Arc::get_mut(gpu) {
                gpu.caps = caps;
            } else {
                panic!("the device is in use before its plan is made");
            }
            continue;
        }
        let unknown: Vec<Shader> = used
            .into_iter()
            .filter(|s| !quarantine.is_good(s))
            .collect();
        if unknown.is_empty() {
            return Ok(proven);
        }
        let total = unknown.len() as u32;
        let failures = test(gpu, &unknown, QUICK, quarantine, &mut |n| {
            progress(n, total)
        })?;
        quarantine.save();
        for f in &failures {
            tracing::warn!("not used on {} from now on: {f}", gpu.name);
        }
        for shader in unknown {
            if !quarantine.is_good(&shader) && quarantine.caught(&shader).is_none() {
                let variant = shader.to_string();
                let evidence = "its cases need a variant that the device refuses".into();
                untested.insert(shader, Caught { variant, evidence });
            }
        }
    }
}

/// The fewest and cheapest levers around everything that is `bad`.
fn around(
    all: &Caps,
    build: &dyn Fn(&Caps) -> Result<Program>,
    bad: &dyn Fn(&Shader) -> bool,
    caught: &Caught,
    device: &str,
) -> Result<(Program, Caps, Vec<&'static str>)> {
    // No lever at all: what is wrong may be a measured cut, and the usual ones are right.
    for n in 0..=MOST_LEVERS {
        for set in subsets(LEVERS.len(), n) {
            let mut caps = all.clone();
            set.iter().for_each(|i| LEVERS[*i].1(&mut caps));
            // A lever may lead to what the device has no room for.
            let Ok(program) = build(&caps) else { continue };
            if !variants(&program).iter().any(bad) {
                let levers = set.iter().map(|i| LEVERS[*i].0).collect();
                return Ok((program, caps, levers));
            }
        }
    }
    let kernel = caught.variant.split('[').next().unwrap_or_default();
    Err(Error::NoVariant {
        kernel: kernel.into(),
        device: device.into(),
        evidence: caught.to_string(),
    })
}

/// All sets of `n` numbers below `of`, in order.
fn subsets(of: usize, n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let longer = |set: Vec<usize>| {
        let from = set.last().map_or(0, |l| l + 1);
        (from..of).map(move |i| [&set[..], &[i]].concat())
    };
    subsets(of, n - 1).into_iter().flat_map(longer).collect()
}

/// Tests variants, and takes down what came of it; of each that was caught, its first failure.
fn test(
    gpu: &Arc<Gpu>,
    shaders: &[Shader],
    repeat: u32,
    quarantine: &mut Quarantine,
    progress: &mut dyn FnMut(u32),
) -> Result<Vec<Failure>> {
    let mut all = Vec::new();
    for (i, shader) in shaders.iter().enumerate() {
        progress(i as u32);
        // It may have been caught in a case of another one.
        if quarantine.caught(shader).is_some() {
            continue;
        }
        let bad = |s: &Shader| quarantine.caught(s).is_some();
        let cases = selftest::for_shader(&gpu.caps, shader, &bad);
        assert!(!cases.is_empty(), "no case for {shader}");
        let ran = blame::run(gpu, cases, Some(shader), repeat, &mut || true);
        if ran.right.contains(shader) {
            quarantine.pass(shader, repeat);
        }
        for f in ran.failures {
            let known = quarantine.caught(&f.shader).is_some();
            quarantine.catch(&f);
            all.extend((!known).then_some(f));
        }
        if let Some(e) = ran.error {
            quarantine.save();
            return Err(e);
        }
    }
    progress(shaders.len() as u32);
    Ok(all)
}

/// What a run of the whole table found.
pub struct Verified {
    /// Device name.
    pub device: String,
    /// Driver and its version.
    pub driver: String,
    /// Backend: `vulkan`, `metal`, `dx12`.
    pub backend: String,
    /// What of the table was run.
    pub parts: Vec<Part>,
    /// It was not run to the end, as it was not to go on.
    pub interrupted: bool,
    /// It was not run to the end, as the device did not.
    pub error: Option<Error>,
    /// Everything that differed, by repetition.
    pub failures: Vec<Failure>,
    /// All in quarantine on this device now.
    pub quarantined: Vec<Caught>,
    /// Whether the next load will know all this.
    pub kept: bool,
}

/// A part of the table.
#[derive(Clone, Debug)]
pub struct Part {
    /// Kernel or family of kernels.
    pub name: &'static str,
    /// Cases.
    pub cases: usize,
    /// Distinct variants in them.
    pub variants: usize,
    /// Whole repetitions that were run: all that were asked for, but for a part that was interrupted.
    pub runs: u32,
}

/// Runs the whole table of cases on a device, `repeat` times, and takes down what is right and what is not.
pub(super) fn verify(
    gpu: &Arc<Gpu>,
    which: &[&'static str],
    repeat: u32,
    quarantine: &mut Quarantine,
    go_on: &mut dyn FnMut(&'static str, usize, usize) -> bool,
) -> Result<Verified> {
    let (mut parts, mut all) = (Vec::new(), Vec::new());
    let (mut interrupted, mut error, mut kept) = (false, None, true);
    for (i, &name) in which.iter().enumerate() {
        let mut go_on = || go_on(name, i, which.len());
        interrupted = !go_on();
        if interrupted {
            break;
        }
        let mut cases = selftest::cases_of(name, &gpu.caps);
        cases.retain(|c| c.fits(&gpu.caps));
        let (n, variants) = (cases.len(), blame::variants(&cases).len());
        let ran = blame::run(gpu, cases, None, repeat, &mut go_on);
        ran.right.iter().for_each(|s| quarantine.pass(s, repeat));
        ran.failures.iter().for_each(|f| quarantine.catch(f));
        kept &= quarantine.save();
        all.extend(ran.failures);
        parts.push(Part {
            name,
            cases: n,
            variants,
            runs: ran.runs,
        });
        error = ran.error;
        interrupted = ran.runs < repeat && error.is_none();
        if interrupted || error.is_some() {
            break;
        }
    }
    Ok(Verified {
        device: gpu.name.clone(),
        driver: gpu.driver.clone(),
        backend: gpu.backend.clone(),
        parts,
        interrupted,
        error,
        failures: all,
        quarantined: quarantine.all(),
        kept,
    })
}

#[cfg(test)]
mod tests {
    use super::subsets;

    #[test]
    fn sets_come_small_and_cheap_first() {
        assert_eq!(subsets(3, 1), [[0], [1], [2]]);
        assert_eq!(subsets(3, 2), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(subsets(10, 4).len(), 210);
    }
}
