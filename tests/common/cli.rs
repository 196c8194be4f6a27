//! Runs the binary as a user does.

#![allow(dead_code)] // no test file needs all of it

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The binary with a cache of its own and no way to the network.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokstep"));
    command
        .args(args)
        .env("TOKSTEP_CACHE", env!("CARGO_TARGET_TMPDIR"))
        // Port 1 refuses, and `false` is no pip.
        .env("TOKSTEP_HUB", "http://127.0.0.1:1")
        .env("TOKSTEP_PIP", "false")
        .env_remove("TOKSTEP_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub fn tokstep(args: &[&str], stdin: &[u8]) -> Output {
    let mut child = command(args).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

/// What it wrote to standard output, after checking that all went well.
pub fn answer(args: &[&str]) -> String {
    let o = tokstep(args, b"");
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", stderr(&o));
    String::from_utf8(o.stdout).unwrap()
}

/// [`answer`] of a command with `--json`.
pub fn object(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&answer(args)).unwrap()
}

/// Exactly one `error: ` with these words, no panic, nothing on standard output, exit code 1.
pub fn fails(args: &[&str], stdin: &[u8], words: &[&str]) {
    let o = tokstep(args, stdin);
    let err = stderr(&o);
    assert_eq!(o.status.code(), Some(1), "{args:?}: {err}");
    assert!(o.stdout.is_empty(), "{args:?}");
    assert_eq!(err.matches("error: ").count(), 1, "{args:?}: {err}");
    assert!(!err.contains("panicked"), "{args:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{args:?}: no {word:?} in {err}");
    }
}

/// Standard error as text.
pub fn stderr(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}
