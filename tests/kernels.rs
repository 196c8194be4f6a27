//! Every kernel on a device against its CPU twin, over the case table; and errors planted on the
//! device's side, which must be found.

mod common;

use common::gpu_trial;
use std::sync::Arc;
use tokstep::gpu::{Gpu, Limits};
use tokstep::plan::Init;
use tokstep::selftest::case::GUARD;
use tokstep::selftest::{self, Case, PARTS, run, weights};

fn open() -> Arc<Gpu> {
    Gpu::open_limited(common::device().as_deref(), None, common::limits())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// The cases of a part of the table; under small limits without those that are larger than a binding.
fn cases_of(name: &str, gpu: &Gpu) -> Vec<Case> {
    let mut cases = selftest::cases_of(name, &gpu.caps);
    let all = cases.len();
    cases.retain(|c| c.fits(&gpu.caps));
    if cases.len() < all {
        println!(
            "{name}: left out with limits {}, of whose bindings a buffer is larger: {} of {all} cases",
            gpu.limits,
            all - cases.len()
        );
        assert!(gpu.limits == Limits::Low && 2 * cases.len() > all);
    }
    cases
}

fn check(name: &str) {
    let gpu = open();
    let cases = cases_of(name, &gpu);
    let failed = run(&gpu, &cases, &cases, 1).unwrap_or_else(|e| panic!("{e}"));
    let failed: Vec<String> = failed.concat().iter().map(ToString::to_string).collect();
    let pipelines = gpu.counts.snapshot()[2];
    println!(
        "{name}: {} cases on {pipelines} pipelines of {}",
        cases.len(),
        gpu.name
    );
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// A parameter of each kernel that changes its result when it is one less, and which it is safe to
/// lessen.
const PARAMETERS: [(&str, &str); 15] = [
    ("get_rows", "row0"),
    ("matvec", "rows"),
    ("matvec_rows", "rows"),
    ("matvec2", "rows2"),
    ("matvec_rows2", "rows2"),
    ("matmul", "rows"),
    ("rms_norm", "n"),
    ("post_norm", "n"),
    ("glu", "n"),
    ("take_row", "n"),
    ("rope_kv", "rot"),
    ("attention", "q_stride"),
    ("attention_rows", "q_stride"),
    ("attn_combine", "hd"),
    ("peak_fma", "rounds"),
];

/// A case with one error: what it is, and the case.
fn plant(case: &Case, step: usize, parameter: &str) -> Vec<(String, Case)> {
    let mut all = Vec::new();
    let kernel = case.steps[step].kernel();
    let mut less = case.clone();
    let at = kernel
        .fields
        .iter()
        .position(|f| f.0 == parameter)
        .expect("a field");
    less.steps[step].params[4 * at] -= 1;
    all.push((format!("{parameter} less one"), less));
    for w in case.written() {
        let (name, id) = (w.name, w.buf);
        for (place, from_end) in [("before", false), ("behind", true)] {
            let mut hit = case.clone();
            let at = |v: &Vec<u32>| if from_end { v.len() - 1 } else { GUARD - 1 };
            let mut silent = case.clone();
            change(&mut hit, id, at, 0.5f32.to_bits());
            all.push((format!("a guard word {place} {name}"), hit));
            if kernel.name != "rope_kv" {
                change(&mut silent, id, at, f32::NAN.to_bits());
                all.push((format!("a NaN {place} {name}"), silent));
            }
        }
    }
    // Its input is the output of the step before.
    if kernel.name != "attn_combine" {
        let binds = &case.steps[step].binds;
        let inputs = binds.iter().enumerate();
        for (_, b) in inputs.filter(|(i, b)| *i == 0 || b.name == "w2") {
            let mut input = case.clone();
            if let Init::Rows { matrix, .. } = &mut input.buffers[b.buf].init {
                *matrix = weights::damaged(matrix);
            } else {
                let at = |_: &Vec<u32>| (b.offset / 4) as usize;
                change(&mut input, b.buf, at, 5f32.to_bits());
            }
            all.push((format!("{} changed", b.name), input));
        }
    }
    all
}

/// Changes a word of a buffer's first contents.
fn change(case: &mut Case, buf: usize, at: impl Fn(&Vec<u32>) -> usize, to: u32) {
    let Init::U32(v) = &mut case.buffers[buf].init else {
        panic!("no words in {buf}")
    };
    let v = Arc::make_mut(v);
    let at = at(v);
    assert_ne!(std::mem::replace(&mut v[at], to), to, "nothing planted");
}

fn planted_errors_are_found() {
    let gpu = open();
    let (mut right, mut wrong, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, parameter) in PARAMETERS {
        if kernel == "attention_rows" && !gpu.caps.kv_texture() {
            println!("{kernel}: not for this device, whose KV cache is no image");
            continue;
        }
        let all = PARTS.iter().flat_map(|p| cases_of(p, &gpu));
        let has = |c: &Case| c.steps.iter().position(|s| s.shader.kernel == kernel);
        // Quants and several columns, so that every planted error is one.
        let suits = |c: &Case| !c.label.contains("\"F32\"") && c.batch.cols > 1;
        let (case, step) = all
            .filter(suits)
            .find_map(|c| has(&c).map(|i| (c, i)))
            .unwrap_or_else(|| panic!("no case of {kernel}"));
        for (what, bad) in plant(&case, step, parameter) {
            names.push(format!("{kernel}: {what} in {}", case.label));
            right.push(case.clone());
            wrong.push(bad);
        }
    }
    let found = run(&gpu, &wrong, &right, 1).unwrap_or_else(|e| panic!("{e}"));
    let missed: Vec<&String> = names
        .iter()
        .zip(&found)
        .filter(|(_, f)| f.is_empty())
        .map(|(n, _)| n)
        .collect();
    println!("{} planted errors", names.len());
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

fn main() {
    let mut trials: Vec<_> = PARTS
        .into_iter()
        .map(|p| gpu_trial(p, move || check(p)))
        .collect();
    trials.push(gpu_trial(
        "planted_errors_are_found",
        planted_errors_are_found,
    ));
    common::run(trials);
}
