//! House rules that a machine can check: sizes, headers, tables, one-way imports, what the library
//! must not contain. No rule here needs a device.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tokstep::kernel::{self, shader};
use tokstep::{model, quant, reference};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files with this extension below a folder of the repository: (path with `/`, text), sorted.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for path in entries.map(|e| e.unwrap().path()) {
            match path.is_dir() {
                true => walk(&path, out),
                false => out.push(path),
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .map(|p| {
            let name = p.strip_prefix(root()).unwrap().to_str().unwrap();
            (name.replace('\\', "/"), read(name))
        })
        .collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn rust() -> Vec<(String, String)> {
    ["src", "tests", "benches"]
        .into_iter()
        .flat_map(|d| files(d, "rs"))
        .collect()
}

/// The library's files: all of `src/` but the binary.
fn library() -> impl Iterator<Item = (String, String)> {
    let ours = |(n, _): &(String, String)| !n.starts_with("src/cli/") && n != "src/main.rs";
    files("src", "rs").into_iter().filter(ours)
}

/// Lines of code: comments left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(l));
    lines.enumerate().map(|(i, l)| (i + 1, l))
}

fn none(bad: Vec<String>) {
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn rust_files_say_what_they_are_and_are_short() {
    let mut bad = Vec::new();
    for (name, text) in rust() {
        if !text.starts_with("//!") {
            bad.push(format!("{name}: begin it with `//!` and what it is"));
        }
        let lines = text.lines().count();
        // One enum has all errors and their texts: a list, which one searches and does not read.
        let most = if name.ends_with("src/error.rs") {
            900
        } else {
            500
        };
        if lines > most {
            bad.push(format!("{name}: {lines} lines, at most {most}"));
        }
    }
    none(bad);
}

#[test]
fn shaders_say_what_they_are_and_are_short_and_listed() {
    let mut bad = Vec::new();
    for (name, text) in files("shaders", "wgsl") {
        if !text.starts_with("// ") {
            bad.push(format!(
                "{name}: begin it with a comment: formula, bindings, workgroups"
            ));
        }
        let lines = text.lines().count();
        if lines > 200 {
            bad.push(format!("{name}: {lines} lines, at most 200"));
        }
        let short = name.trim_start_matches("shaders/");
        if !shader::FILES.iter().any(|(n, _)| *n == short) {
            bad.push(format!("{name}: list it in kernel::shader::FILES"));
        }
    }
    none(bad);
}

#[test]
fn every_kernel_has_a_shader_a_twin_and_a_test_case() {
    let table = files("src/selftest", "rs");
    let mut bad = Vec::new();
    for k in kernel::ALL {
        let file = format!("{}.wgsl", k.name);
        if !shader::FILES.iter().any(|(n, _)| *n == file) {
            bad.push(format!("{}: no shaders/{file}", k.name));
        }
        reference::twin(k.name); // panics without one
        let quoted = format!("\"{}\"", k.name);
        if !table.iter().any(|(_, t)| t.contains(&quoted)) {
            bad.push(format!("{}: no case in src/selftest", k.name));
        }
    }
    none(bad);
}

#[test]
fn every_weight_type_has_a_golden_and_a_shader() {
    let mut bad = Vec::new();
    for t in quant::ALL {
        let golden = format!("tests/cases/quant/{}.bin", t.name.to_lowercase());
        if !root().join(&golden).exists() {
            bad.push(format!("{}: no golden {golden}", t.name));
        }
        if !shader::FILES.iter().any(|(n, _)| *n == t.shader) {
            bad.push(format!(
                "{}: {} is not in kernel::shader::FILES",
                t.name, t.shader
            ));
        }
    }
    none(bad);
}

#[test]
fn every_architecture_has_a_tiny_model() {
    let models = files("tests/cases/models", "json");
    let mut bad = Vec::new();
    for a in model::arch::ALL {
        let key = format!("\"arch\":\"{}\"", a.name);
        if !models
            .iter()
            .any(|(_, text)| text.replace(": ", ":").contains(&key))
        {
            bad.push(format!("{}: no tiny model in tests/cases/models", a.name));
        }
    }
    none(bad);
}

/// What the files of a room may import. A room that is not here is new: give it a place.
const ROOMS: [(&str, &[&str]); 13] = [
    ("gguf", &[]),
    ("quant", &["gguf"]),
    ("model", &["gguf", "quant"]),
    ("synth", &["gguf", "quant", "model"]),
    ("kernel", &[]),
    ("plan", &["model", "kernel"]),
    ("gpu", &["model", "kernel", "plan"]),
    ("reference", &["model", "kernel", "plan"]),
    ("text", &["gguf"]),
    (
        "selftest",
        &[
            "gguf",
            "quant",
            "model",
            "kernel",
            "plan",
            "gpu",
            "reference",
        ],
    ),
    (
        "engine",
        &[
            "gguf",
            "model",
            "kernel",
            "plan",
            "gpu",
            "reference",
            "selftest",
            "text",
        ],
    ),
    ("models", &[]),
    ("error", &[]),
];

/// First path segments of everything a line takes from `crate::`.
fn imported(line: &str) -> Vec<String> {
    let word = |s: &str| {
        s.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let mut all = Vec::new();
    for rest in line.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => all.extend(list.split(',').map(|item| word(item.trim()))),
            None => all.push(word(rest)),
        }
    }
    all
}

#[test]
fn imports_go_one_way() {
    let mut bad = Vec::new();
    for (name, text) in library().filter(|(n, _)| n != "src/lib.rs") {
        let path = name.trim_start_matches("src/");
        let room = path
            .split('/')
            .next()
            .unwrap_or(path)
            .trim_end_matches(".rs");
        let Some((_, allowed)) = ROOMS.iter().find(|(r, _)| *r == room) else {
            bad.push(format!("{name}: {room} has no place in the order of rooms"));
            continue;
        };
        for (line, code) in code(&text) {
            for from in imported(code) {
                let known = ROOMS.iter().any(|(r, _)| *r == from) && from != "error";
                if known && from != room && !allowed.contains(&from.as_str()) {
                    bad.push(format!("{name}:{line}: {room} must not know {from}"));
                }
            }
            if code.contains("wgpu::") && room != "gpu" {
                bad.push(format!("{name}:{line}: only gpu names wgpu"));
            }
        }
    }
    none(bad);
}

#[test]
fn unsafe_code_is_where_it_was_audited() {
    const AUDITED: [&str; 2] = ["src/gpu/trusted.rs", "src/main.rs"];
    let mut found = BTreeSet::new();
    for (name, text) in rust().into_iter().filter(|(n, _)| n != "tests/tidy.rs") {
        let is = |l: &str| {
            l.split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|w| w == "unsafe")
        };
        if code(&text).any(|(_, l)| is(l)) {
            found.insert(name);
        }
    }
    assert_eq!(found, AUDITED.map(String::from).into());
}

#[test]
fn the_library_is_finished_and_silent() {
    let mut bad = Vec::new();
    for (name, text) in library() {
        for (line, code) in code(&text) {
            for word in ["todo!", "unimplemented!", "dbg!", "println!", "print!"] {
                if code.contains(word) {
                    bad.push(format!("{name}:{line}: {word}"));
                }
            }
        }
    }
    none(bad);
}

#[test]
fn the_architecture_names_every_dependency_and_file() {
    let text = read("ARCHITECTURE.md");
    let mut bad = Vec::new();
    let mut section = "";
    let manifest = read("Cargo.toml");
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]")
            && let Some((name, _)) = line.split_once(" =")
            && !text.contains(&format!("| `{name}`"))
        {
            bad.push(format!(
                "{name} of Cargo.toml: give the reason for it in ARCHITECTURE.md"
            ));
        }
    }
    // Weight types and architectures have one file each, and a line there for all of them.
    let table: Vec<String> = quant::ALL.iter().map(|t| t.name.to_lowercase()).collect();
    let table = |stem: &str| {
        table.iter().any(|t| t == stem) || model::arch::ALL.iter().any(|a| a.name == stem)
    };
    for (name, _) in files("src", "rs") {
        let path = name.trim_start_matches("src/").trim_end_matches("/mod.rs");
        let stem = path
            .rsplit('/')
            .next()
            .unwrap_or(path)
            .trim_end_matches(".rs");
        if !table(stem) && !text.contains(&format!("`{path}`")) {
            bad.push(format!(
                "{name}: missing in the code map of ARCHITECTURE.md as `{path}`"
            ));
        }
    }
    none(bad);
}

#[test]
fn changes_are_written_down() {
    let text = read("CHANGELOG.md");
    assert!(
        text.contains("\n## Unreleased\n"),
        "CHANGELOG.md has no section Unreleased"
    );
    let version = format!("\n## {}", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version) || env!("CARGO_PKG_VERSION") == "0.1.0");
}
