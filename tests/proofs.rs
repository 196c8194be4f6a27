//! Planted faults: each kernel family, always wrong, wrong in one of twenty dispatches, or refused. They must be found,
//! kept out of use, and the answer must be what it is without them; where nothing is left, the load must say so.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use common::gpu_trial;
use tokstep::engine::{LoadStage, Quarantine, Verified};
use tokstep::gpu::{Gpu, Limits};
use tokstep::kernel::Shader;
use tokstep::selftest::{self, Case, PARTS};
use tokstep::{Engine, EngineOptions, Error, GenerateOptions, Result};

/// A family, a pattern that hits what is used of it first, and a model that uses it.
const FAULTS: [(&str, &str); 14] = [
    ("get_rows[", "llama_q4_k"),
    ("attention", "llama_q4_k"),
    ("2[", "qwen2_q4_k"), // two matrices of different types
    ("scale_norm", "llama_q4_k"),
    ("sink_norm", "llama_q4_k"),
    ("columns_n", "llama_q4_k"),
    ("rms_norm[", "llama_q4_k"),
    ("post_norm[", "gemma3_q8_0"),
    ("take_row[", "llama_q4_k"),
    ("rope_kv[", "llama_q4_k"),
    ("attn_combine[", "llama_q4_k"),
    ("penalize[", "llama_q4_k"),
    ("logits_part[", "llama_q4_k"),
    ("sample[", "llama_q4_k"),
];

fn options(dir: &Path, fault: Option<String>) -> EngineOptions {
    EngineOptions {
        device: common::device(),
        limits: common::limits(),
        context: Some(256),
        proofs: Some(dir.into()),
        fault,
        ..EngineOptions::default()
    }
}

fn open() -> Arc<Gpu> {
    Gpu::open_limited(common::device().as_deref(), None, common::limits()).unwrap()
}

fn load(model: &str, o: &EngineOptions) -> Result<Engine> {
    let path = common::case(&format!("cases/models/{model}.gguf"));
    Engine::load(&path, o, &mut |_| ())
}

fn answer(e: &Engine) -> Vec<u32> {
    let mut session = e.session().unwrap();
    let prompt: Vec<u32> = (3..24).collect();
    session.prefill(&prompt).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(12),
        ignore_eos: true,
        ..Default::default()
    };
    let pieces = session.generate(&o).unwrap();
    pieces.flat_map(|p| p.unwrap().ids).collect()
}

/// A model without faults: its answer and its variants in the order of its steps.
fn right(model: &str) -> (Vec<u32>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    right_with(model, &options(dir.path(), None))
}

fn right_with(model: &str, o: &EngineOptions) -> (Vec<u32>, Vec<String>) {
    let e = load(model, o).unwrap();
    assert!(e.info().quarantined.is_empty() && e.info().without.is_empty());
    let names = {
        let scheduler = e.scheduler();
        let p = &scheduler.program().program;
        let all = p.decode.steps().chain(p.prefill.steps());
        all.map(|s| s.shader.to_string()).collect()
    };
    (answer(&e), names)
}

fn always_wrong_is_found_at_load_and_replaced() {
    // Few bindings, small ones, or narrow subgroups leave no room for some fusions.
    let full = common::limits() == Limits::Adapter && open().caps.spread();
    for model in ["llama_q4_k", "gemma3_q8_0", "qwen2_q4_k"] {
        let (right, variants) = right(model);
        let here = FAULTS.iter().filter(|f| f.1 == model);
        for (pattern, _) in here {
            let Some(variant) = variants.iter().find(|v| v.contains(pattern)) else {
                assert!(!full, "{model}: no {pattern}");
                continue;
            };
            // A folder that knows nothing: what passed once is not tested again.
            let dir = tempfile::tempdir().unwrap();
            let o = options(dir.path(), Some(variant.clone()));
            let e = load(model, &o).unwrap_or_else(|e| panic!("{variant}: {e}"));
            let info = e.info();
            assert!(
                info.quarantined.iter().any(|c| c.variant == *variant),
                "{variant}: {:?}",
                info.quarantined
            );
            assert!(!info.without.is_empty(), "{variant}");
            assert_eq!(answer(&e), right, "{variant}, without {:?}", info.without);
            // The next load knows, and tests nothing again.
            let mut tested = 0;
            let path = common::case(&format!("cases/models/{model}.gguf"));
            let e = Engine::load(&path, &o, &mut |stage| {
                tested += u32::from(matches!(stage, LoadStage::Proofs { .. }));
            });
            assert_eq!(answer(&e.unwrap()), right, "{variant}");
            assert_eq!(tested, 0, "{variant}");
        }
    }
}

/// A GPU without subgroups has `matvec` with teams that are workgroups, and that one, too, has another beside it.
fn without_subgroups_matvec_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let plain = |dir: &Path, fault| EngineOptions {
        adjust: Some(|caps| {
            (caps.software, caps.subgroups) = (false, false);
            (caps.subgroup_min, caps.subgroup_max) = (1, 1);
        }),
        ..options(dir, fault)
    };
    let (right, variants) = right_with("llama_q4_k", &plain(dir.path(), None));
    // The plainest one: norms, columns and pairs are not what leads around it.
    let plainest = "columns_1, team_shared, scale_one, sink_plain";
    let is = |v: &&String| v.starts_with("matvec[") && v.contains(plainest);
    let variant = variants.iter().find(is).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let e = load("llama_q4_k", &plain(dir.path(), Some(variant.clone()))).unwrap();
    let caught: Vec<&str> = e.info().quarantined.iter().map(|c| &*c.variant).collect();
    assert_eq!(caught, [variant]);
    assert!(!e.info().without.is_empty());
    assert_eq!(answer(&e), right);
}

/// Kernels whose cases have others as well: the device refuses to make one or to run it, and that one is blamed, not those
/// beside it.
fn what_a_device_refuses_is_blamed_alone_and_replaced() {
    let (right, variants) = right("llama_q4_k");
    for pattern in [
        "scale_norm",
        "attn_combine[",
        "penalize[",
        "logits_part[",
        "sample[",
    ] {
        let Some(variant) = variants.iter().find(|v| v.contains(pattern)) else {
            assert_eq!(pattern, "scale_norm", "it needs subgroups");
            continue;
        };
        for how in ["refused", "rejected"] {
            let dir = tempfile::tempdir().unwrap();
            let o = options(dir.path(), Some(format!("{variant}/{how}")));
            let e = load("llama_q4_k", &o).unwrap_or_else(|e| panic!("{variant} {how}: {e}"));
            let info = e.info();
            let caught: Vec<&str> = info.quarantined.iter().map(|c| &*c.variant).collect();
            assert_eq!(caught, [variant], "{how}: {:?}", info.quarantined);
            assert!(!info.without.is_empty(), "{variant} {how}");
            assert_eq!(answer(&e), right, "{variant} {how}");
        }
    }
    // With none left it is the one that is refused that is named.
    let dir = tempfile::tempdir().unwrap();
    match load(
        "llama_q4_k",
        &options(dir.path(), Some("penalize[/refused".into())),
    ) {
        Err(Error::NoVariant { kernel, .. }) => assert_eq!(kernel, "penalize"),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("loaded"),
    }
}

/// The whole table: what stands before a refused step of a case is tested all the same, what stands behind it is
/// neither right nor wrong.
fn what_is_beside_a_refused_variant_is_tested_as_far_as_it_can_be() {
    let gpu = open();
    for (part, refused, before) in [
        (
            "attention",
            "attn_combine",
            &["attention", "attention_rows"][..],
        ),
        ("sampling", "sample", &["penalize", "logits_part"]),
        ("sampling", "penalize", &[]),
    ] {
        let mut cases = selftest::cases_of(part, &gpu.caps);
        cases.retain(|c| c.fits(&gpu.caps));
        for how in ["refused", "rejected"] {
            let dir = tempfile::tempdir().unwrap();
            let v = verify(
                &options(dir.path(), Some(format!("{refused}[/{how}"))),
                &[part],
                1,
            );
            let kept = Quarantine::of(Some(dir.path()), &v.device, &v.driver, &v.backend);
            for s in cases.iter().flat_map(|c| &c.steps).map(|s| &s.shader) {
                let (good, bad) = (kept.is_good(s), kept.caught(s));
                assert_eq!(good, before.contains(&s.kernel), "{refused} {how}: {s}");
                assert_eq!(bad.is_some(), s.kernel == refused, "{refused} {how}: {s}");
            }
        }
    }
}

/// A device that goes away amid a run does not take along what it got wrong before.
fn what_was_found_before_a_loss_is_kept() {
    let mut gpu = open();
    let mut cases = selftest::cases_of("glu", &gpu.caps);
    cases.retain(|c| c.fits(&gpu.caps));
    Arc::get_mut(&mut gpu).unwrap().fault = Some("glu".parse().unwrap());
    let mut asked = 0;
    let mut go_on = || {
        asked += 1;
        if asked == 4 * cases.len() {
            gpu.destroy();
        }
        true
    };
    let mut ran = selftest::Ran::default();
    let ended = selftest::run_while(&gpu, &cases, &cases, 50, &mut go_on, &mut ran);
    assert!(matches!(ended, Err(Error::DeviceLost { .. })));
    assert!((1..50).contains(&ran.runs));
    assert!(!ran.failures.concat().is_empty());
}

/// Ctrl-C comes amid repetitions.
fn what_was_interrupted_does_not_count_as_right() {
    let dir = tempfile::tempdir().unwrap();
    let mut left = 100;
    let mut go_on = |part: &str, _, _| {
        left -= i32::from(part == "take_row");
        left > 0
    };
    let o = options(dir.path(), None);
    let parts = ["glu", "take_row", "norms"];
    let v = Engine::verify_device_parts(&o, &parts, 50, &mut go_on).unwrap();
    assert!(v.interrupted && left == 0, "it is asked once more at most");
    let runs: Vec<_> = v.parts.iter().map(|p| (p.name, p.runs)).collect();
    let [("glu", 50), ("take_row", n)] = runs[..] else {
        panic!("{runs:?}");
    };
    assert!((1..50).contains(&n), "{n}");
    let gpu = Gpu::open_limited(common::device().as_deref(), None, common::limits()).unwrap();
    let kept = Quarantine::of(Some(dir.path()), &v.device, &v.driver, &v.backend);
    for part in parts {
        for case in selftest::cases_of(part, &gpu.caps) {
            let good = kept.is_good(&case.steps[0].shader);
            assert_eq!(good, part == "glu", "{}", case.label);
        }
    }
}

fn with_no_variant_left_the_load_fails_and_names_the_kernel() {
    for kernel in ["rope_kv", "sample", "get_rows"] {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), Some(format!("{kernel}[")));
        match load("llama_q4_k", &o) {
            Err(Error::NoVariant { kernel: named, .. }) => assert_eq!(named, kernel),
            Err(e) => panic!("{kernel}: {e}"),
            Ok(_) => panic!("{kernel}: loaded"),
        }
    }
}

/// Verifies parts of the table.
fn verify(o: &EngineOptions, parts: &[&'static str], repeat: u32) -> Verified {
    Engine::verify_device_parts(o, parts, repeat, &mut |_, _, _| true).unwrap()
}

fn now_and_then_wrong_is_found_by_repetition() {
    for (part, variant) in [
        ("norms", "rms_norm[group_shared, WG=64]"),
        ("glu", "glu["),
        ("sampling", "sample[group_shared, WG=64]"),
        ("take_row", "take_row["),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let o = options(dir.path(), Some(format!("{variant}/20")));
        let v = verify(&o, &[part], 24);
        assert!(!v.failures.is_empty(), "{variant} was not caught");
        assert!(
            v.failures
                .iter()
                .all(|f| f.shader.to_string().contains(variant)),
            "{variant}: {:?}",
            v.failures
        );
        // Not each time.
        let runs: BTreeSet<u32> = v.failures.iter().map(|f| f.run).collect();
        assert!(runs.len() < 24, "{variant}: {runs:?}");
        assert!(!v.quarantined.is_empty());
        let kept = Quarantine::of(Some(dir.path()), &v.device, &v.driver, &v.backend);
        assert_eq!(kept.all().len(), v.quarantined.len());
        // The same without the fault is right, and pardons nobody.
        let v = verify(&options(dir.path(), None), &[part], 2);
        assert!(v.failures.is_empty(), "{variant}: {:?}", v.failures);
        assert!(!v.quarantined.is_empty());
    }
}

/// Every kernel, wrong in one of twenty dispatches: what is found is that variant and nothing else.
fn each_kernel_that_errs_now_and_then_is_found() {
    let mut seen = BTreeSet::new();
    let mut images = false;
    for part in PARTS {
        let mut gpu = open();
        let mut cases = selftest::cases_of(part, &gpu.caps);
        cases.retain(|c| c.fits(&gpu.caps));
        images = gpu.caps.kv_texture();
        let mut firsts: Vec<Shader> = Vec::new();
        for step in cases.iter().flat_map(|c| &c.steps) {
            if firsts.iter().all(|s| s.kernel != step.shader.kernel) {
                firsts.push(step.shader.clone());
            }
        }
        for shader in firsts {
            seen.insert(shader.kernel);
            let of = |c: &&Case| c.steps.iter().any(|s| s.shader == shader);
            let own: Vec<Case> = cases.iter().filter(of).take(6).cloned().collect();
            let fault = format!("{shader}/20").parse().unwrap();
            Arc::get_mut(&mut gpu).unwrap().fault = Some(fault);
            let found = selftest::run(&gpu, &own, &own, 21).unwrap().concat();
            assert!(!found.is_empty(), "{shader} was not caught");
            let all = found.iter().map(|f| &f.shader);
            assert!(all.clone().all(|s| *s == shader), "{shader}: {found:?}");
            // Now and then it was right.
            let runs: BTreeSet<u32> = found.iter().map(|f| f.run).collect();
            assert!(runs.len() < 21, "{shader}");
        }
    }
    let mut missing: Vec<&str> = tokstep::kernel::ALL.iter().map(|k| k.name).collect();
    missing.retain(|k| !seen.contains(k));
    // It reads its KV cache as images.
    missing.retain(|k| images || *k != "attention_rows");
    assert!(missing.is_empty(), "no case for {missing:?}");
}

fn a_fault_is_written_as_a_pattern_and_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let e = load("llama_q4_k", &options(dir.path(), Some("glu/often".into())));
    assert!(matches!(e, Err(Error::Fault { .. })));
}

fn main() {
    common::run(vec![
        gpu_trial(
            "always_wrong_is_found_at_load_and_replaced",
            always_wrong_is_found_at_load_and_replaced,
        ),
        gpu_trial(
            "without_subgroups_matvec_is_replaced",
            without_subgroups_matvec_is_replaced,
        ),
        gpu_trial(
            "what_a_device_refuses_is_blamed_alone_and_replaced",
            what_a_device_refuses_is_blamed_alone_and_replaced,
        ),
        gpu_trial(
            "what_is_beside_a_refused_variant_is_tested_as_far_as_it_can_be",
            what_is_beside_a_refused_variant_is_tested_as_far_as_it_can_be,
        ),
        gpu_trial(
            "what_was_found_before_a_loss_is_kept",
            what_was_found_before_a_loss_is_kept,
        ),
        gpu_trial(
            "what_was_interrupted_does_not_count_as_right",
            what_was_interrupted_does_not_count_as_right,
        ),
        gpu_trial(
            "with_no_variant_left_the_load_fails_and_names_the_kernel",
            with_no_variant_left_the_load_fails_and_names_the_kernel,
        ),
        gpu_trial(
            "now_and_then_wrong_is_found_by_repetition",
            now_and_then_wrong_is_found_by_repetition,
        ),
        gpu_trial(
            "each_kernel_that_errs_now_and_then_is_found",
            each_kernel_that_errs_now_and_then_is_found,
        ),
        gpu_trial(
            "a_fault_is_written_as_a_pattern_and_a_number",
            a_fault_is_written_as_a_pattern_and_a_number,
        ),
    ]);
}
