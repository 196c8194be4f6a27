//! Two thousand decode steps: no growth, and the same tokens however many go into a submit; a lost device
//! is loaded again into the memory of the old one. In a process of its own, one after the other, since other
//! tests' memory would count.

mod common;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};

fn load(name: &str, o: EngineOptions) -> Engine {
    let path = common::case("cases/models").join(name);
    let o = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        ..o
    };
    Engine::load(&path, &o, &mut |_| ()).unwrap()
}

fn prompt(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 7 + seed * 13 + i * i) % 50).collect()
}

fn resident_kib() -> Option<u64> {
    kib("VmRSS:")
}

fn kib(what: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with(what))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn two_thousand_steps_do_not_grow_and_grouping_does_not_matter() {
    let mut all = Vec::new();
    for steps in [1, 8] {
        let e = load(
            "llama_q8_0.gguf",
            EngineOptions {
                context: Some(2304),
                steps_per_submit: steps,
                ..Default::default()
            },
        );
        let mut s = e.session().unwrap();
        s.prefill(&prompt(30, 3)).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(2000),
            sample: SampleOptions {
                seed: 42,
                ..Default::default()
            },
            ignore_eos: true,
            ..Default::default()
        };
        let mut ids = Vec::new();
        let mut early = None;
        for p in s.generate(&o).unwrap() {
            ids.extend(p.unwrap().ids);
            if ids.len() == 100 {
                early = resident_kib();
            }
        }
        assert_eq!(ids.len(), 2000);
        if let (Some(a), Some(b)) = (early, resident_kib()) {
            println!("{steps} steps a submit: {a} KiB after 100 tokens, {b} KiB after 2000");
            assert!(
                b.saturating_sub(a) < 5 * 1024,
                "resident memory grew from {a} to {b} KiB"
            );
        }
        all.push(ids);
    }
    assert_eq!(all[0], all[1]);
}

/// A device that is lost gives its memory back before the weights are loaded again: there need not be room
/// for them twice. Where the device's memory is not this process's, peak and size are about equal and prove
/// nothing, nor do they where a system does not count peaks.
fn recovery_needs_no_more_memory_than_the_model() {
    let o = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        context: Some(256),
        ..Default::default()
    };
    let model = tokstep::synth::open("smollm2-135m:f16").unwrap();
    let e = Engine::load_gguf(&model, &o, &mut |_| ()).unwrap();
    let weights = e.info().allocated.weights / 1024;
    let mut s = e.session().unwrap();
    s.prefill(&prompt(3, 3)).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(3),
        ignore_eos: true,
        ..Default::default()
    };
    let ids = |answer: tokstep::engine::Generation| -> Vec<u32> {
        answer.flat_map(|p| p.unwrap().ids).collect()
    };
    let n = ids(s.generate(&o).unwrap()).len();
    let before = resident_kib();
    let counted = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    e.destroy_device();
    s.rewind(3);
    assert_eq!(ids(s.generate(&o).unwrap()).len(), n);
    if let (Some(before), Some(peak), true) = (before, kib("VmHWM:"), counted) {
        println!("{weights} KiB of weights, {before} KiB before the loss, {peak} KiB at the most");
        assert!(peak < before + weights / 2, "{before}, then {peak} KiB");
    }
}

fn main() {
    let mut args = libtest_mimic::Arguments::from_args();
    args.test_threads = Some(1);
    let trials = vec![
        common::gpu_trial(
            "two_thousand_steps_do_not_grow_and_grouping_does_not_matter",
            two_thousand_steps_do_not_grow_and_grouping_does_not_matter,
        ),
        common::gpu_trial(
            "recovery_needs_no_more_memory_than_the_model",
            recovery_needs_no_more_memory_than_the_model,
        ),
    ];
    libtest_mimic::run(&args, trials).exit();
}
