//! Helpers for several test files.

#![allow(dead_code)] // each test file uses some of them

use std::path::{Path, PathBuf};

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

/// A real model's file, in the folder `TOKSTEP_TEST_MODELS` or where `tokstep pull` puts it.
pub fn model(file: &str) -> PathBuf {
    let folder = std::env::var_os("TOKSTEP_TEST_MODELS").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| {
        let home = std::env::var_os("HOME").expect("HOME is set");
        Path::new(&home).join(".cache/tokstep/models")
    });
    let path = folder.join(file);
    assert!(
        path.exists(),
        "{} is missing: tokstep pull it",
        path.display()
    );
    path
}
