//! `verify` passes where the device is right, and names the step where it is not; the command tells what it found
//! whatever ends it.

#[path = "common/cli.rs"]
mod cli;
mod common;
#[path = "common/patch.rs"]
mod patch;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cli::{command, stderr};
use serde_json::Value;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};

fn whole_answers_agree_step_by_step() {
    for name in ["llama_q4_k", "gemma3_q8_0", "qwen2_q4_k", "qwen3_f32"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/models/{name}.gguf"));
        let o = EngineOptions {
            context: Some(128),
            verify: true,
            device: common::device(),
            limits: common::limits(),
            ..Default::default()
        };
        let e = Engine::load(&path, &o, &mut |_| ()).unwrap();
        let mut s = e.session().unwrap();
        s.prefill(&(0..90).map(|i| i * 7 % 50).collect::<Vec<u32>>())
            .unwrap();
        let o = GenerateOptions {
            max_tokens: Some(12),
            ignore_eos: true,
            sample: SampleOptions {
                repeat_penalty: 1.1,
                ..Default::default()
            },
            ..Default::default()
        };
        let n: usize = s.generate(&o).unwrap().map(|p| p.unwrap().ids.len()).sum();
        assert_eq!(n, 12);
        assert!(e.verified().unwrap() > 200);
    }
}

/// The report of a run that ended with this code, and what it said.
fn report(o: &std::process::Output, code: i32) -> (Value, String) {
    let err = stderr(o);
    assert_eq!(o.status.code(), Some(code), "{err}");
    assert_eq!(err.matches("error: ").count(), 1, "{err}");
    (serde_json::from_slice(&o.stdout).unwrap(), err)
}

/// A run that would take hours ends within seconds, and says how far it came.
fn ctrl_c_ends_it_with_a_report() {
    let cache = tempfile::tempdir().unwrap();
    let run = |seconds| {
        let child = command(&["verify", "--repeat", "1000000", "--json"])
            .env("TOKSTEP_CACHE", cache.path())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        let pressed = Instant::now();
        let signal = ["-INT", &child.id().to_string()];
        let killed = Command::new("kill").args(signal).status();
        assert!(killed.unwrap().success());
        let o = child.wait_with_output().unwrap();
        let waited = pressed.elapsed().as_secs_f64();
        // Hours are left of the run; a busy machine may take its time.
        assert!(waited < 30.0, "{waited} s");
        o
    };
    // On a machine that is slow to start a program the signal may come before anybody listens.
    let early = |o: &std::process::Output| o.status.code().is_none() || o.stdout.is_empty();
    let waits = [5, 20, 60];
    let o = waits.into_iter().map(run).find(|o| !early(o));
    let o = o.expect("it began within a minute");
    let (r, err) = report(&o, 130);
    assert!(err.contains("interrupted"), "{err}");
    assert_eq!(r["interrupted"], true);
    let part = &r["parts"][0];
    assert_eq!(part["part"], "get_rows");
    assert!(part["runs"].as_u64().unwrap() < 1_000_000, "{part}");
    assert_eq!(r["model_steps"], Value::Null);
}

/// What is told of kernels does not depend on the model.
fn a_broken_model_costs_no_report() {
    let cache = tempfile::tempdir().unwrap();
    let broken = cache.path().join("broken.gguf");
    std::fs::write(&broken, b"GGUF, but not for long").unwrap();
    let run = |model: &str| {
        let mut c = command(&["verify", "--repeat", "1", "--json", "-m", model]);
        c.env("TOKSTEP_CACHE", cache.path()).output().unwrap()
    };
    let (r, err) = report(&run(broken.to_str().unwrap()), 1);
    assert!(err.contains("broken.gguf"), "{err}");
    assert_eq!(r["parts"].as_array().unwrap().len(), 12);
    assert_eq!(r["interrupted"], false);
    assert!(r["model_error"].as_str().unwrap().contains("broken.gguf"));
    // A path that leads nowhere is told before anything is run.
    let o = run("no/such/model.gguf");
    assert_eq!(o.status.code(), Some(1));
    assert!(o.stdout.is_empty() && stderr(&o).contains("no/such/model.gguf"));
}

/// A step that both sides find too large differs for the file's sake: nothing is held against the device.
fn numbers_of_the_file_are_not_the_devices_fault() {
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().join("large.gguf");
    let spoil = |t: &tokstep::gguf::TensorInfo, data: &mut Vec<u8>| {
        if t.name == "blk.0.ffn_norm.weight" {
            data[40..44].copy_from_slice(&3e38f32.to_le_bytes());
        }
    };
    let model = common::case("cases/models/llama_f32.gguf");
    std::fs::write(&path, patch::file(&model, |_| (), spoil)).unwrap();
    let args = ["verify", "--repeat", "1", "--json", "-m"];
    let o = command(&[&args[..], &[path.to_str().unwrap()]].concat())
        .env("TOKSTEP_CACHE", cache.path())
        .output()
        .unwrap();
    let (r, err) = report(&o, 1);
    assert_eq!(r["quarantined"], serde_json::json!([]), "{err}");
    assert!(!r["model_error"].is_null());
    for part in r["parts"].as_array().unwrap() {
        assert_eq!(part["runs"], 1);
    }
}

/// What could not be kept is not promised.
fn a_quarantine_that_is_not_kept_is_told() {
    let cache = tempfile::tempdir().unwrap();
    let file = cache.path().join("a file");
    std::fs::write(&file, "").unwrap();
    for (cache, kept) in [(cache.path(), true), (&*file, false)] {
        let o = command(&[
            "verify",
            "--repeat",
            "1",
            "--json",
            "--fault",
            "take_row/refused",
        ])
        .env("TOKSTEP_CACHE", cache)
        .output()
        .unwrap();
        let err = stderr(&o);
        let r: Value = serde_json::from_slice(&o.stdout).unwrap();
        assert_eq!((o.status.code(), &r["kept"]), (Some(1), &Value::Bool(kept)));
        assert_eq!(err.contains("in quarantine"), kept, "{err}");
        assert_eq!(err.contains("TOKSTEP_CACHE"), !kept, "{err}");
        assert_eq!(err.contains("not kept"), !kept, "{err}");
        let caught = r["quarantined"][0]["evidence"].as_str().unwrap();
        assert!(caught.lines().count() == 1, "{caught}");
    }
}

fn main() {
    let mut trials = vec![
        common::gpu_trial(
            "whole_answers_agree_step_by_step",
            whole_answers_agree_step_by_step,
        ),
        common::gpu_trial(
            "numbers_of_the_file_are_not_the_devices_fault",
            numbers_of_the_file_are_not_the_devices_fault,
        ),
        common::gpu_trial(
            "a_quarantine_that_is_not_kept_is_told",
            a_quarantine_that_is_not_kept_is_told,
        ),
        common::gpu_trial(
            "a_broken_model_costs_no_report",
            a_broken_model_costs_no_report,
        ),
    ];
    if cfg!(unix) {
        trials.push(common::gpu_trial(
            "ctrl_c_ends_it_with_a_report",
            ctrl_c_ends_it_with_a_report,
        ));
    }
    common::run(trials);
}
