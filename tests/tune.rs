//! Tuning on the device: wrong cuts are found and never taken, budgets hold, tuned engines answer as
//! others do, and `tokstep tune`.

#[path = "common/cli.rs"]
mod cli;
mod common;

use std::path::Path;
use std::time::Duration;

use common::{case, gpu_trial};
use tokstep::engine::{
    Engine, EngineOptions, GenerateOptions, Outcome, Quarantine, SampleOptions, Tune, TuneOptions,
    TuneReport,
};
use tokstep::gguf::Gguf;
use tokstep::plan::Step;
use tokstep::plan::product::Cut;

const MODELS: [&str; 2] = ["llama_q4_k", "gemma3_q8_0"];

fn file(name: &str) -> std::path::PathBuf {
    case("cases/models").join(name).with_extension("gguf")
}

fn options(tuning: Tune) -> EngineOptions {
    EngineOptions {
        device: common::device(),
        limits: common::limits(),
        context: Some(128),
        tuning,
        ..Default::default()
    }
}

/// Everything of a model, in few rounds, with errors planted.
fn tune(name: &str, dir: &Path, budget: u64, change: Option<fn(&Cut, &mut Step)>) -> TuneReport {
    let o = options(Tune::Cached(dir.to_path_buf()));
    tune_with(name, &o, budget, change)
}

fn tune_with(
    name: &str,
    o: &EngineOptions,
    budget: u64,
    change: Option<fn(&Cut, &mut Step)>,
) -> TuneReport {
    let gguf = Gguf::open(&file(name)).unwrap();
    let how = TuneOptions {
        budget: Duration::from_secs(budget),
        rounds: 3,
        least: 0,
        change,
    };
    Engine::tune(&gguf, o, &how, &mut |_| ()).unwrap_or_else(|e| panic!("{e}"))
}

/// One row less than there are.
fn damage(step: &mut Step) {
    let fields = step.kernel().fields;
    let at = fields.iter().position(|(n, _)| *n == "rows").unwrap();
    let field = &mut step.params[4 * at..][..4];
    let rows = u32::from_le_bytes((&*field).try_into().unwrap());
    field.copy_from_slice(&(rows - 1).to_le_bytes());
}

fn every_cut_is_right() {
    let dir = tempfile::tempdir().unwrap();
    for name in MODELS {
        let report = tune(name, dir.path(), 3600, None);
        assert!(
            report.left.is_empty() && report.measured.len() >= 4,
            "{report:?}"
        );
        for m in &report.measured {
            assert!(m.tried.len() >= 3 && m.chosen.is_some(), "{m:?}");
            for t in &m.tried {
                let Outcome::Timed(ns) = t.outcome else {
                    panic!("{name}: {}: {t:?}", m.shape)
                };
                assert!(ns > 0.0 && ns < 1e9, "{t:?}");
            }
        }
    }
}

fn wrong_cuts_are_reported_and_never_taken() {
    let dir = tempfile::tempdir().unwrap();
    let some = |cut: &Cut, step: &mut Step| {
        if cut.lanes == 32 {
            damage(step);
        }
    };
    let report = tune("llama_q4_k", dir.path(), 3600, Some(some));
    let mut found = 0;
    for m in &report.measured {
        for (i, t) in m.tried.iter().enumerate() {
            let planted = t.cut.lanes == 32;
            match &t.outcome {
                Outcome::Failed(why) => {
                    assert!(planted && why.contains("twin"), "{}: {t:?}", m.shape);
                    assert_ne!(m.chosen, Some(i), "{m:?}");
                    found += 1;
                }
                Outcome::Timed(_) => assert!(!planted, "{}: {t:?} passed", m.shape),
            }
        }
    }
    assert!(found >= report.measured.len(), "{report:?}");
}

fn nothing_is_taken_where_all_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let all = |_: &Cut, step: &mut Step| damage(step);
    let report = tune("llama_q4_k", dir.path(), 3600, Some(all));
    assert!(
        report.measured.iter().all(|m| m.chosen.is_none()),
        "{report:?}"
    );
    let e = load("llama_q4_k", Tune::Cached(dir.path().to_path_buf()));
    assert!(e.info().tuned.is_empty());
}

fn load(name: &str, tuning: Tune) -> Engine {
    Engine::load(&file(name), &options(tuning), &mut |_| ()).unwrap_or_else(|e| panic!("{e}"))
}

fn answer(e: &Engine) -> Vec<u32> {
    let mut s = e.session().unwrap();
    let prompt: Vec<u32> = (0..70).map(|i| (i * 7 + i * i) % 50).collect();
    s.prefill(&prompt).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(24),
        sample: SampleOptions {
            temp: 0.0,
            ..Default::default()
        },
        ignore_eos: true,
        ..Default::default()
    };
    let pieces = s.generate(&o).unwrap();
    pieces.flat_map(|p| p.unwrap().ids).collect()
}

/// All cuts but one are made wrong, so that this one is taken wherever it is offered.
fn tuned_engines_answer_as_others_do() {
    let others = |cut: &Cut, step: &mut Step| {
        if cut.lanes != 32 {
            damage(step);
        }
    };
    for name in MODELS {
        let dir = tempfile::tempdir().unwrap();
        let report = tune(name, dir.path(), 3600, Some(others));
        let usual = load(name, Tune::Off);
        let tuned = load(name, Tune::Cached(dir.path().to_path_buf()));
        assert!(usual.info().tuned.is_empty());
        let changed = &tuned.info().tuned;
        let chosen = report
            .measured
            .iter()
            .filter(|m| m.chosen.is_some())
            .count();
        assert_eq!(changed.len(), chosen, "{changed:?}");
        assert!(!changed.is_empty());
        assert!(
            changed.iter().all(|c| c.contains("32 lanes")),
            "{changed:?}"
        );
        assert_eq!(answer(&tuned), answer(&usual), "{name}: {changed:?}");
    }
}

/// Puts a variant into quarantine in a folder.
fn catch(dir: &Path, e: &Engine, variant: &str) {
    let gpu = e.scheduler().program().gpu.clone();
    let mut q = Quarantine::of(Some(dir), &gpu.name, &gpu.driver, &gpu.backend);
    q.catch_named(variant, "a planted error");
    q.save();
}

/// The variant of the first product that a step plan has a shape of.
fn variant(e: &Engine) -> (String, String) {
    let scheduler = e.scheduler();
    let steps = &scheduler.program().program.decode.body;
    let step = steps.iter().find(|s| s.shape.is_some()).unwrap();
    let shape = step.shape.unwrap();
    (step.shader.to_string(), shape.to_string())
}

/// Neither measured, nor used although it was measured, nor told as if it were used.
fn what_is_in_quarantine_takes_no_part() {
    let name = "llama_q4_k";
    let (cuts, proofs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let usual = load(name, Tune::Off);
    let (first, shape) = variant(&usual);
    catch(proofs.path(), &usual, &first);
    let o = EngineOptions {
        proofs: Some(proofs.path().to_path_buf()),
        ..options(Tune::Cached(cuts.path().to_path_buf()))
    };
    let report = tune_with(name, &o, 3600, None);
    let of = |m: &&tokstep::engine::Measured| m.shape.to_string() == shape;
    let measured = report.measured.iter().find(of).unwrap();
    match &measured.tried[0].outcome {
        Outcome::Failed(why) => assert!(why.contains("in quarantine") && why.contains("planted")),
        Outcome::Timed(_) => panic!("{measured:?}"),
    }
    assert!(measured.chosen.is_some_and(|i| i > 0), "{measured:?}");
    // What was chosen instead is used, until it is caught, too.
    let right = answer(&usual);
    let tuned = Engine::load(&file(name), &o, &mut |_| ()).unwrap();
    assert_eq!(answer(&tuned), right);
    let (second, _) = variant(&tuned);
    assert_ne!(first, second);
    catch(proofs.path(), &usual, &second);
    let without = Engine::load(&file(name), &o, &mut |_| ()).unwrap();
    assert!(without.info().tuned.is_empty());
    let (third, _) = variant(&without);
    assert!(third != first && third != second);
    assert_eq!(answer(&without), right);
}

fn without_time_nothing_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let all = tune("llama_q4_k", dir.path(), 3600, None).measured.len();
    let empty = tempfile::tempdir().unwrap();
    let none = tune("llama_q4_k", empty.path(), 0, None);
    assert_eq!((none.measured.len(), none.left.len()), (0, all));
    assert_eq!(
        none.measured.iter().map(|m| m.tried.len()).sum::<usize>(),
        0
    );
    let e = load("llama_q4_k", Tune::Cached(empty.path().to_path_buf()));
    assert!(e.info().tuned.is_empty());
}

/// Matrices of tiny models are smaller than what a load measures.
fn a_load_does_not_measure_what_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let e = load("llama_q4_k", Tune::IfMissing(dir.path().to_path_buf()));
    assert!(e.info().tuned.is_empty());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    // How many submits the upload takes is a matter of luck.
    let made = |e: &Engine| {
        let [allocations, groups, pipelines, _, dispatches, _] = e.counts();
        [allocations, groups, pipelines, dispatches]
    };
    assert_eq!(made(&e), made(&load("llama_q4_k", Tune::Off)));
}

fn the_command_prints_a_table_and_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = file("llama_q4_k");
    let run = |more: &[&str]| {
        let model = ["tune", "-m", model.to_str().unwrap(), "--seconds", "3600"];
        let args: Vec<&str> = model.iter().chain(more).copied().collect();
        let mut command = cli::command(&args);
        let o = command.env("TOKSTEP_CACHE", dir.path()).output().unwrap();
        assert!(o.status.success(), "{}", cli::stderr(&o));
        String::from_utf8(o.stdout).unwrap()
    };
    let text = run(&[]);
    for word in ["Q4_K 64x256 x 1", "GB/s", "* matvec", "shapes in"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    assert!(!text.contains("not taken"), "{text}");
    let kept = || {
        std::fs::read_dir(dir.path().join("tuning"))
            .unwrap()
            .count()
    };
    assert_eq!(kept(), 1);
    let object: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let measured = object["measured"].as_array().unwrap();
    assert_eq!(measured.len(), text.matches(" of them, as ").count());
    for m in measured {
        let tried = m["tried"].as_array().unwrap();
        let chosen = tried.iter().filter(|t| t["chosen"] == true).count();
        assert_eq!(chosen, 1, "{m}");
        assert!(tried.iter().all(|t| t["ns"].as_f64().unwrap() > 0.0), "{m}");
    }
    assert_eq!(kept(), 1);
}

fn main() {
    common::run(vec![
        gpu_trial("every_cut_is_right", every_cut_is_right),
        gpu_trial(
            "wrong_cuts_are_reported_and_never_taken",
            wrong_cuts_are_reported_and_never_taken,
        ),
        gpu_trial(
            "nothing_is_taken_where_all_are_wrong",
            nothing_is_taken_where_all_are_wrong,
        ),
        gpu_trial(
            "tuned_engines_answer_as_others_do",
            tuned_engines_answer_as_others_do,
        ),
        gpu_trial(
            "what_is_in_quarantine_takes_no_part",
            what_is_in_quarantine_takes_no_part,
        ),
        gpu_trial(
            "without_time_nothing_is_measured",
            without_time_nothing_is_measured,
        ),
        gpu_trial(
            "a_load_does_not_measure_what_does_not_matter",
            a_load_does_not_measure_what_does_not_matter,
        ),
        gpu_trial(
            "the_command_prints_a_table_and_keeps_it",
            the_command_prints_a_table_and_keeps_it,
        ),
    ]);
}
