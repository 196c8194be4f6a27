//! Helpers for several test files: case files, real models, and trials that say truthfully whether
//! they ran. A test that needs a device or a model shows as `ignored` where there is none, and fails
//! with `CI=true`, so that a pipeline never passes by skipping.

#![allow(dead_code)] // no test file needs all of it

use std::path::{Path, PathBuf};

pub use libtest_mimic::Trial;
pub use tokstep::gpu::Limits;

/// A file under tests/.
pub fn case(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(path)
}

/// A JSON file under tests/.
pub fn json(path: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(case(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Runs trials and prints what `cargo test` prints. For test targets with `harness = false`.
pub fn run(trials: Vec<Trial>) {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}

/// A test that needs nothing. Panics are failures.
pub fn trial(name: &str, f: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, || {
        f();
        Ok(())
    })
}

/// A test on the device that `TOKSTEP_DEVICE` or the engine picks.
pub fn gpu_trial(name: &str, f: impl FnOnce() + Send + 'static) -> Trial {
    needing("gpu", name, no_device(), f)
}

/// A test on the device that a profile of limits has no room for, for a reason that is shown.
pub fn gpu_trial_but_for(
    profile: Limits,
    reason: &str,
    name: &str,
    f: impl FnOnce() + Send + 'static,
) -> Trial {
    match limits() == profile {
        false => gpu_trial(name, f),
        true => Trial::test(name, || Ok(()))
            .with_kind(format!("gpu, not with limits {profile}: {reason}"))
            .with_ignored_flag(true),
    }
}

/// A test on a real model's file, from the folder `TOKSTEP_TEST_MODELS` or where `tokstep pull`
/// puts it.
pub fn model_trial(
    name: &str,
    file: &'static str,
    f: impl FnOnce(&Path) + Send + 'static,
) -> Trial {
    needing("model", name, no_model(file), move || {
        f(&models().join(file));
    })
}

/// A test that runs a real model.
pub fn gpu_model_trial(
    name: &str,
    file: &'static str,
    f: impl FnOnce(&Path) + Send + 'static,
) -> Trial {
    let missing = no_device().or(no_model(file));
    needing("gpu, model", name, missing, move || {
        f(&models().join(file));
    })
}

/// The adapter to test on.
pub fn device() -> Option<String> {
    std::env::var("TOKSTEP_DEVICE").ok()
}

/// The limits to open it with: the profile that `TOKSTEP_LIMITS` names, as for the binary.
pub fn limits() -> Limits {
    let name = std::env::var("TOKSTEP_LIMITS").unwrap_or_default();
    name.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// Why there is no device.
fn no_device() -> Option<String> {
    static REASON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let reason = || tokstep::gpu::adapters(device().as_deref()).err();
    // The error says what to install.
    REASON
        .get_or_init(|| reason().map(|e| e.to_string()))
        .clone()
}

/// Why there is no such model.
fn no_model(file: &str) -> Option<String> {
    let path = models().join(file);
    let help = "fetch it with `tokstep pull`, or point TOKSTEP_TEST_MODELS at its folder";
    (!path.exists()).then(|| format!("{} is missing: {help}", path.display()))
}

fn models() -> PathBuf {
    use etcetera::BaseStrategy;
    let folder = |name| std::env::var_os(name).filter(|v| !v.is_empty());
    if let Some(folder) = folder("TOKSTEP_TEST_MODELS").or_else(|| folder("TOKSTEP_CACHE")) {
        return folder.into();
    }
    let base = etcetera::choose_base_strategy().expect("a home folder");
    base.cache_dir().join("tokstep/models")
}

fn needing(
    kind: &str,
    name: &str,
    missing: Option<String>,
    f: impl FnOnce() + Send + 'static,
) -> Trial {
    let ci = std::env::var("CI").is_ok_and(|v| !matches!(v.as_str(), "" | "0" | "false"));
    let ignored = missing.is_some() && !ci;
    let test = move || match missing {
        Some(reason) => Err(reason.into()),
        None => {
            f();
            Ok(())
        }
    };
    Trial::test(name, test)
        .with_kind(kind)
        .with_ignored_flag(ignored)
}
