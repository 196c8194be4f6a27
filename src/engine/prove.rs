//! Variants are proven before they are used: those of a plan that are not known to be right on this device
//! run their cases against the CPU twins, what fails goes into quarantine, and a plan is made that does
//! without it. `tokstep verify` runs the whole table, many times over.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::quarantine::{Caught, Quarantine};
use crate::gpu::Gpu;
use crate::kernel::choose::LEVERS;
use crate::kernel::{Caps, Shader};
use crate::plan::{Plan, Program};
use crate::selftest::{self, Case, Failure};
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
    loop {
        let used = variants(&proven.program);
        if let Some(caught) = used.iter().find_map(|s| quarantine.caught(s)) {
            let (program, caps, levers) = around(&all, build, quarantine, &caught, &gpu.name)?;
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
            tracing::warn!("wrong numbers on {}, not used from now on: {f}", gpu.name);
        }
    }
}

/// The fewest and cheapest levers around everything in quarantine.
fn around(
    all: &Caps,
    build: &dyn Fn(&Caps) -> Result<Program>,
    quarantine: &Quarantine,
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
            if variants(&program)
                .iter()
                .all(|s| quarantine.caught(s).is_none())
            {
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

/// Tests variants, and takes down what came of it.
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
        let cases = selftest::for_shader(&gpu.caps, shader);
        assert!(!cases.is_empty(), "no case for {shader}");
        let failures = run(gpu, &cases, shader, repeat)?;
        if failures.iter().all(|f| f.shader != *shader) {
            quarantine.pass(shader, repeat);
        }
        failures.iter().for_each(|f| quarantine.catch(f));
        all.extend(failures.into_iter().filter(|f| f.shader == *shader).take(1));
    }
    progress(shaders.len() as u32);
    Ok(all)
}

/// Whether an error is the fault of a variant, and not of the device as a whole.
fn of_variant(e: &Error) -> bool {
    matches!(
        e,
        Error::Shader { .. } | Error::Bind { .. } | Error::DeviceRejects { .. }
    )
}

/// Runs cases of one variant. A device that does not even take them fails them, too.
fn run(gpu: &Arc<Gpu>, cases: &[Case], shader: &Shader, repeat: u32) -> Result<Vec<Failure>> {
    match selftest::run(gpu, cases, cases, repeat) {
        Ok(failures) => Ok(failures.concat()),
        Err(e) if !of_variant(&e) => Err(e),
        Err(e) => Ok(vec![Failure {
            shader: shader.clone(),
            case: "making its pipeline".into(),
            run: 1,
            detail: e.to_string(),
        }]),
    }
}

/// What a run of the whole table found.
pub struct Verified {
    /// Device name.
    pub device: String,
    /// Driver and its version.
    pub driver: String,
    /// Backend: `vulkan`, `metal`, `dx12`.
    pub backend: String,
    /// Part of the table, cases, variants.
    pub parts: Vec<(&'static str, usize, usize)>,
    /// Everything that differed, by repetition.
    pub failures: Vec<Failure>,
    /// All in quarantine on this device now.
    pub quarantined: Vec<Caught>,
}

/// Runs the whole table of cases on a device, `repeat` times, and takes down what is right and what is not.
pub(super) fn verify(
    gpu: &Arc<Gpu>,
    which: &[&'static str],
    repeat: u32,
    quarantine: &mut Quarantine,
    go_on: &mut dyn FnMut(&'static str, usize, usize) -> bool,
) -> Result<Verified> {
    let mut parts = Vec::new();
    let mut all = Vec::new();
    for (i, &part) in which.iter().enumerate() {
        if !go_on(part, i, which.len()) {
            break;
        }
        let mut cases = selftest::cases_of(part, &gpu.caps);
        cases.retain(|c| c.fits(&gpu.caps));
        let of = |c: &Case| c.steps.iter().map(|s| s.shader.clone()).collect::<Vec<_>>();
        let variants: BTreeSet<Shader> = cases.iter().flat_map(of).collect();
        parts.push((part, cases.len(), variants.len()));
        let failures = match selftest::run(gpu, &cases, &cases, repeat) {
            Ok(failures) => failures.concat(),
            Err(e) if !of_variant(&e) => return Err(e),
            // One variant is not taken by the device; which one, each shows alone.
            Err(_) => {
                let mut each = Vec::new();
                for shader in &variants {
                    let has = |c: &&Case| c.steps.iter().any(|s| s.shader == *shader);
                    let own: Vec<Case> = cases.iter().filter(has).cloned().collect();
                    each.extend(run(gpu, &own, shader, repeat)?);
                }
                each
            }
        };
        let wrong: BTreeSet<&Shader> = failures.iter().map(|f| &f.shader).collect();
        let right = variants.iter().filter(|s| !wrong.contains(s));
        right.for_each(|s| quarantine.pass(s, repeat));
        failures.iter().for_each(|f| quarantine.catch(f));
        quarantine.save();
        all.extend(failures);
    }
    Ok(Verified {
        device: gpu.name.clone(),
        driver: gpu.driver.clone(),
        backend: gpu.backend.clone(),
        parts,
        failures: all,
        quarantined: quarantine.all(),
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
