//! Runs cases and says of each variant in them whether it is right, wrong, or refused by the device. A case may
//! have several kernels: a refusal is the fault of the one that it names, not of those that share a case with it.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use crate::gpu::Gpu;
use crate::kernel::Shader;
use crate::selftest::{self, Case, Failure};
use crate::{Error, Result};

/// What came of a run, however it ended.
pub(super) struct Ran {
    /// Everything that differed, by repetition, and everything that was refused.
    pub failures: Vec<Failure>,
    /// Variants that ran all repetitions and were right in each.
    pub right: BTreeSet<Shader>,
    /// Whole repetitions; fewer than were asked for: it was interrupted, or could not go on.
    pub runs: u32,
    /// Why it could not: no variant's fault.
    pub error: Option<Error>,
}

/// All distinct variants of cases.
pub(super) fn variants(cases: &[Case]) -> BTreeSet<Shader> {
    let steps = cases.iter().flat_map(|c| &c.steps);
    steps.map(|s| s.shader.clone()).collect()
}

/// Runs cases, `repeat` times. What the device refuses is taken out of them, and the rest runs without it. `suspect`:
/// the variant under test, which is to blame where nothing else tells. `go_on` is asked before each case.
pub(super) fn run(
    gpu: &Arc<Gpu>,
    mut cases: Vec<Case>,
    suspect: Option<&Shader>,
    repeat: u32,
    go_on: &mut dyn FnMut() -> bool,
) -> Ran {
    let mut all = Ran {
        failures: Vec::new(),
        right: BTreeSet::new(),
        runs: repeat,
        error: None,
    };
    // A device may refuse something once and never again.
    let mut pardoned = false;
    while !cases.is_empty() {
        let mut ran = selftest::Ran::default();
        let Err(e) = selftest::run_while(gpu, &cases, &cases, repeat, go_on, &mut ran) else {
            all.failures.extend(ran.failures.into_iter().flatten());
            all.runs = ran.runs;
            // Who did not run to the end proved nothing.
            if ran.runs == repeat {
                all.right = variants(&cases);
                all.failures
                    .iter()
                    .for_each(|f| _ = all.right.remove(&f.shader));
            }
            break;
        };
        // More may be told of the same refusal.
        gpu.forgive();
        match blame(gpu, &cases, suspect.filter(|_| pardoned), &e, go_on) {
            Ok(Some(f)) => {
                cases = without(cases, &f.shader);
                all.failures.push(f);
            }
            Ok(None) if matches!(e, Error::DeviceRejects { .. }) && !pardoned => pardoned = true,
            nobody => {
                all.failures.extend(ran.failures.into_iter().flatten());
                (all.runs, all.error) = (ran.runs, Some(nobody.err().unwrap_or(e)));
                break;
            }
        }
    }
    all
}

/// The variant that an error of a run is the fault of; `None`: that of none.
fn blame(
    gpu: &Arc<Gpu>,
    cases: &[Case],
    suspect: Option<&Shader>,
    e: &Error,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Failure>> {
    let (name, case) = match e {
        Error::Shader { shader, .. } => (shader, "making its pipeline"),
        Error::Bind { shader, .. } => (shader, "binding it"),
        Error::DeviceRejects { .. } => return unnamed(gpu, cases, suspect, e, go_on),
        _ => return Ok(None),
    };
    let named = variants(cases).into_iter().find(|s| s.to_string() == *name);
    Ok(named.map(|shader| refusal(shader, case, e.to_string())))
}

/// A device that rejects a command names no shader: to blame is the first step with which a case is rejected
/// that was not without it.
fn unnamed(
    gpu: &Arc<Gpu>,
    cases: &[Case],
    suspect: Option<&Shader>,
    e: &Error,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Failure>> {
    let all = variants(cases);
    if let (Some(only), 1) = (all.first().cloned(), all.len()) {
        let detail = e.to_string();
        return Ok(Some(refusal(only, "running its cases", detail)));
    }
    let mut rejected = |case: &Case| {
        let (case, mut ran) = (from_ref(case), selftest::Ran::default());
        match selftest::run_while(gpu, case, case, 1, go_on, &mut ran) {
            Err(e @ Error::DeviceRejects { .. }) => Ok(Some(e)),
            Err(e) => Err(e),
            Ok(()) => Ok(None),
        }
    };
    for case in cases {
        if rejected(case)?.is_none() {
            continue;
        }
        for n in 0..case.steps.len() {
            let mut begin = case.clone();
            begin.steps.truncate(n + 1);
            if let Some(e) = rejected(&begin)? {
                let shader = case.steps[n].shader.clone();
                let detail = format!("{e} (it names no kernel: this is the first step with which)");
                return Ok(Some(refusal(shader, &case.label, detail)));
            }
        }
    }
    // It was rejected all together, and none of it alone.
    Ok(suspect.filter(|s| all.contains(s)).map(|shader| {
        let detail = format!("{e} (it names no kernel: this is the one that was tested)");
        refusal(shader.clone(), "running its cases", detail)
    }))
}

fn refusal(shader: Shader, case: &str, detail: String) -> Failure {
    Failure {
        shader,
        case: case.into(),
        run: 1,
        detail,
    }
}

/// Cases as far as they come without a variant.
fn without(mut cases: Vec<Case>, shader: &Shader) -> Vec<Case> {
    for case in &mut cases {
        let at = case.steps.iter().position(|s| s.shader == *shader);
        case.steps.truncate(at.unwrap_or(case.steps.len()));
    }
    cases.retain(|c| !c.steps.is_empty());
    cases
}
