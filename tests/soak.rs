//! Two thousand decode steps: no growth, and the same tokens however many go into a submit. In a
//! process of its own, since other tests' memory would count.

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
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
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

fn main() {
    common::run(vec![common::gpu_trial(
        "two_thousand_steps_do_not_grow_and_grouping_does_not_matter",
        two_thousand_steps_do_not_grow_and_grouping_does_not_matter,
    )]);
}
