//! Runs cases and says of each variant in them whether it is right, wrong, or refused by the device. A case may
//! have several kernels: a refusal is the fault of the one that it names, not of those that share a case with it.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use crate::gpu::Gpu;
use crate::kernel::Shader;
use crate::selftest::{self, Case, Failure};
use crate::{Error, Result};

/// What came of a run.
pub(super) struct Ran {
    /// Everything that differed, by repetition, and everything that was refused.
    pub failures: Vec<Failure>,
    /// Variants that ran all repetitions and were right in each.
    pub right: BTreeSet<Shader>,
    /// Whole repetitions; fewer than were asked for: it was interrupted.
    pub runs: u32,
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
) -> Result<Ran> {
    let mut failures = Vec::new();
    let (mut right, mut runs) = (BTreeSet::new(), repeat);
    while !cases.is_empty() {
        let e = match selftest::run_while(gpu, &cases, &cases, repeat, go_on) {
            Ok(ran) => {
                failures.extend(ran.failures.into_iter().flatten());
                runs = ran.runs;
                // Who did not run to the end proved nothing.
                if runs == repeat {
                    right = variants(&cases);
                    failures.iter().for_each(|f| _ = right.remove(&f.shader));
                }
                break;
            }
            Err(e) => e,
        };
        match blame(gpu, &cases, suspect, &e, go_on)? {
            Some(f) => {
                cases = without(cases, &f.shader);
                failures.push(f);
            }
            None if go_on() => return Err(e),
            None => {
                runs = 0;
                break;
            }
        }
    }
    Ok(Ran {
        failures,
        right,
        runs,
    })
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
    let mut all = variants(cases);
    if all.len() == 1 {
        let only = all.pop_first();
        return Ok(only.map(|shader| refusal(shader, "running its cases", e.to_string())));
    }
    let mut rejected = |case: &Case| {
        let case = from_ref(case);
        match selftest::run_while(gpu, case, case, 1, go_on) {
            Err(e @ Error::DeviceRejects { .. }) => Ok(Some(e)),
            Err(e) => Err(e),
            Ok(_) => Ok(None),
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
    // It was rejected once, and not again.
    Ok(suspect.map(|shader| {
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
