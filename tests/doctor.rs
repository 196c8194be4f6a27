//! `tokstep doctor`: on models that are well, on files and machines that are not, and what its report
//! must not tell.

#[path = "common/cli.rs"]
mod cli;
mod common;

use cli::{command, stderr};
use common::{case, gpu_trial, trial};
use serde_json::Value;
use std::path::Path;
use tokstep::gpu::Limits;
use tokstep::{Engine, EngineOptions};

const CHATML: &str = "cases/scripted/scripted_chatml.gguf";
const STAGES: [&str; 11] = [
    "file",
    "encoding",
    "format",
    "tokenizer",
    "template",
    "driver",
    "device",
    "limits",
    "kernels",
    "token",
    "speed",
];

/// The report of a run in this environment, and its exit code.
fn report(args: &[&str], env: &[(&str, &str)]) -> (Value, i32, String) {
    let args = [&["doctor", "--json"], args].concat();
    let mut c = command(&args);
    c.envs(env.iter().copied());
    let o = c.output().unwrap();
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    let report =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{}", stderr(&o)));
    assert!(!stderr(&o).contains("panicked"), "{}", stderr(&o));
    (report, o.status.code().unwrap(), text)
}

fn stage<'r>(report: &'r Value, name: &str) -> &'r Value {
    let all = report["stages"].as_array().unwrap();
    let found = all.iter().find(|s| s["stage"] == name);
    found.unwrap_or_else(|| panic!("no stage {name} in {report:#}"))
}

fn status<'r>(report: &'r Value, name: &str) -> &'r str {
    stage(report, name)["status"].as_str().unwrap()
}

fn says(report: &Value, name: &str, words: &[&str]) {
    let s = stage(report, name);
    let text = format!("{} {}", s["found"], s["advice"]);
    for word in words {
        assert!(text.contains(word), "{name}: no {word:?} in {text}");
    }
}

/// A damaged copy: its first `keep` bytes.
fn cut(dir: &Path, name: &str, keep: usize) -> String {
    let bytes = std::fs::read(case(CHATML)).unwrap();
    let path = dir.join(name);
    std::fs::write(&path, &bytes[..keep]).unwrap();
    path.to_str().unwrap().to_owned()
}

fn a_model_that_is_well() {
    let model = case(CHATML);
    let (r, code, _) = report(&["-m", model.to_str().unwrap()], &[]);
    assert_eq!(code, 0, "{r:#}");
    let names: Vec<_> = r["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["stage"].as_str().unwrap())
        .collect();
    assert_eq!(names, STAGES, "in this order");
    for name in STAGES {
        assert!(matches!(status(&r, name), "fine" | "note"), "{r:#}");
    }
    assert_eq!(r["ok"], true);
    says(&r, "kernels", &["plan steps of this model", "agree"]);
    says(&r, "format", &["GGUF version 3", "llama"]);
    assert!(!r["device"]["driver"].as_str().unwrap().is_empty());
}

/// A device opened with small limits is looked at as a load opens it.
fn a_device_with_small_limits() {
    let model = case(CHATML);
    for (profile, limits, bindings) in [
        ("browser", Limits::Browser, "128 MiB"),
        ("low", Limits::Low, "1 MiB"),
    ] {
        let (r, code, _) = report(&["-m", model.to_str().unwrap(), "--limits", profile], &[]);
        assert_eq!(code, 0, "{r:#}");
        assert_eq!(r["limits"], profile);
        for name in STAGES {
            assert!(matches!(status(&r, name), "fine" | "note"), "{r:#}");
        }
        let o = EngineOptions {
            device: common::device(),
            limits,
            context: Some(128),
            ..EngineOptions::default()
        };
        let engine = Engine::load(&model, &o, &mut |_| ()).unwrap();
        let takes = engine.info().memory.total() as f64 / f64::from(1 << 20);
        says(
            &r,
            "limits",
            &[
                &format!("limits {profile}: bindings of {bindings}"),
                "subgroups none",
                &format!("the model takes {takes:.0} MiB"),
            ],
        );
    }
}

/// Without a model: the machine, with made-up weights, as text for people.
fn the_machine_alone() {
    let o = command(&["doctor"]).output().unwrap();
    let text = String::from_utf8(o.stdout.clone()).unwrap();
    assert_eq!(o.status.code(), Some(0), "{text}{}", stderr(&o));
    let names: Vec<_> = text.lines().filter(|l| !l.starts_with(' ')).collect();
    for (line, name) in names.iter().zip(&STAGES[5..]) {
        assert!(line.starts_with(name), "{text}");
    }
    assert!(
        text.contains("all is well with drivers and device"),
        "{text}"
    );
}

/// The file is at fault: what follows from it is skipped, the device is tried all the same.
fn broken_files() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::metadata(case(CHATML)).unwrap().len() as usize;
    let half = cut(dir.path(), "half.gguf", whole / 2);
    let (r, code, _) = report(&["-m", &half], &[]);
    assert_eq!((code, &r["ok"]), (1, &false.into()));
    assert_eq!(status(&r, "format"), "failed");
    for name in ["tokenizer", "template", "token", "speed"] {
        assert_eq!(status(&r, name), "skipped", "{r:#}");
    }
    says(&r, "tokenizer", &["format"]);
    assert_eq!(status(&r, "kernels"), "fine");
    assert!(r["verdict"].as_str().unwrap().contains("file is at fault"));
    // A text that is not UTF-8.
    let mut bytes = std::fs::read(case(CHATML)).unwrap();
    let key = b"general.architecture";
    let at = bytes.windows(key.len()).position(|w| w == key).unwrap();
    // Behind the key: its type (4 bytes), the length (8) and the text.
    bytes[at + key.len() + 12] = 0xff;
    let odd = dir.path().join("odd.gguf");
    std::fs::write(&odd, bytes).unwrap();
    let (r, code, _) = report(&["-m", odd.to_str().unwrap()], &[]);
    assert_eq!((code, status(&r, "encoding")), (1, "failed"));
    says(&r, "encoding", &["general.architecture"]);
}

/// A variable that names a driver that is not there is no fault of the model's.
/// Also where the device's stages come upon it.
fn the_file_is_blamed_for_what_is_the_files() {
    for name in [
        "w_all_nan",
        "tok_more_tokens_than_rows",
        "arch_missing",
        "t_dims_swapped",
    ] {
        let path = case(&format!("cases/gguf/{name}.gguf"));
        let (r, code, _) = report(&["-m", path.to_str().unwrap()], &[]);
        let verdict = r["verdict"].as_str().unwrap();
        assert_eq!(code, 1, "{name}");
        assert_eq!(verdict, "the file is at fault, not this machine", "{name}");
        let failed = |s: &&Value| s["status"] == "failed";
        for s in r["stages"].as_array().unwrap().iter().filter(failed) {
            assert_eq!(s["fault_of"], "file", "{name}: {s}");
        }
    }
}

fn a_driver_that_is_not_there() {
    let model = case(CHATML);
    for (name, value) in [
        ("VK_ICD_FILENAMES", "/no/such/icd.json"),
        ("VK_DRIVER_FILES", "/no/such/icd.json"),
    ] {
        let (r, code, _) = report(&["-m", model.to_str().unwrap()], &[(name, value)]);
        assert_eq!(code, 1);
        for name in ["file", "encoding", "format", "tokenizer", "template"] {
            assert!(matches!(status(&r, name), "fine" | "note"), "{r:#}");
        }
        assert_eq!(
            (status(&r, "driver"), status(&r, "device")),
            ("failed", "failed")
        );
        says(&r, "driver", &[name, "icd.json", "no such file", "unset"]);
        for name in ["limits", "kernels", "token", "speed"] {
            assert_eq!(status(&r, name), "skipped");
        }
        assert!(
            r["verdict"]
                .as_str()
                .unwrap()
                .contains("not the model's fault")
        );
        assert!(r["device"].is_null());
    }
}

/// Nothing that says who somebody is or where their files are.
fn reports_tell_no_names() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("adalovelace");
    std::fs::create_dir(&home).unwrap();
    let bad = cut(&home, "my secret model.gguf", 100);
    let gone = home.join("gone.gguf").to_str().unwrap().to_owned();
    let env = [
        ("USER", "adalovelace"),
        ("HOME", home.to_str().unwrap()),
        ("VK_ICD_FILENAMES", &gone),
    ];
    for model in [&bad[..], &gone] {
        let (r, code, text) = report(&["-m", model], &env);
        assert_eq!(code, 1);
        for word in [
            "adalovelace",
            "secret",
            dir.path().to_str().unwrap(),
            "/no/",
            "/home",
            "/tmp",
            "/usr",
        ] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert!(status(&r, "file") == "failed" || status(&r, "format") == "failed");
        assert!(text.contains("<model>"), "{text}");
    }
    // Nor the prompt and the answer of its trial, nor the file's own name and texts.
    let model = case(CHATML);
    let (_, _, text) = report(&["-m", model.to_str().unwrap()], &env[..2]);
    for word in [
        "scripted",
        env!("CARGO_MANIFEST_DIR"),
        "im_start",
        "adalovelace",
    ] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

fn main() {
    let linux = cfg!(target_os = "linux");
    let mut trials = vec![
        gpu_trial("a_model_that_is_well", a_model_that_is_well),
        gpu_trial("a_device_with_small_limits", a_device_with_small_limits),
        gpu_trial("the_machine_alone", the_machine_alone),
        gpu_trial(
            "the_file_is_blamed_for_what_is_the_files",
            the_file_is_blamed_for_what_is_the_files,
        ),
        gpu_trial("broken_files", broken_files),
        gpu_trial("reports_tell_no_names", reports_tell_no_names),
    ];
    if linux {
        trials.push(trial(
            "a_driver_that_is_not_there",
            a_driver_that_is_not_there,
        ));
    }
    common::run(trials);
}
