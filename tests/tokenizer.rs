//! Tokenizers against llama.cpp and Hugging Face's tokenizers, and vocabularies that are broken.

mod common;

use common::{case, json, model_trial, trial};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use tokstep::gguf::Gguf;
use tokstep::text::Tokenizer;

fn open(path: &Path) -> Tokenizer {
    Tokenizer::from_gguf(&Gguf::open(path).unwrap()).unwrap()
}

fn ids(v: &Value) -> Vec<u32> {
    serde_json::from_value(v.clone()).unwrap()
}

/// Encodes every case whose model `tokenizer` gives, and decodes it again. Returns their number.
fn check(cases: &str, tokenizer: impl Fn(&str) -> Option<Tokenizer>) -> usize {
    let mut tokenizers = HashMap::new();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in json(cases).as_array().unwrap() {
        let name = case["model"].as_str().unwrap().to_owned();
        let t = tokenizers
            .entry(name.clone())
            .or_insert_with(|| tokenizer(&name));
        let Some(t) = t else { continue };
        let text = case["text"].as_str().unwrap();
        let special = case["parse_special"].as_bool().unwrap();
        let add = case["add_special"].as_bool().unwrap_or(false);
        let found = t.encode(text, special, add).unwrap();
        let back = t.decode(&found, !add);
        if found != ids(&case["ids"]) {
            wrong.push(format!("{name} {text:?}: {found:?}, not {}", case["ids"]));
        }
        // A prefix model adds a space after each special token, which stays in the text.
        let blur = |s: &str| match name.as_str() {
            "tok_spm_prefix.gguf" => s.replace(' ', ""),
            _ => s.to_owned(),
        };
        if blur(&back) != blur(text) {
            wrong.push(format!("{name} {text:?}: decoded to {back:?}"));
        }
        count += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} wrong of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    count
}

fn tiny_vocabularies() {
    let open_case = |name: &str| Some(open(&case(&format!("cases/tokenizer/{name}"))));
    assert_eq!(check("cases/tokenizer/tiny.json", open_case), 187);
}

/// Qwen2 was trained on composed text; llama.cpp does not compose, Hugging Face does.
fn qwen2_text_is_composed_first() {
    let t = open(&case("cases/tokenizer/tok_qwen2.gguf"));
    let ids = |text| t.encode(text, true, false).unwrap();
    assert_eq!(ids("caf\u{65}\u{301}"), ids("caf\u{e9}"));
    let t = open(&case("cases/tokenizer/tok_smollm.gguf"));
    let ids = |text| t.encode(text, true, false).unwrap();
    assert_ne!(ids("caf\u{65}\u{301}"), ids("caf\u{e9}"));
}

/// The cases of a real model and the prompts recorded for it.
fn real_cases(name: &str, path: &Path, number: usize) {
    let wanted = |n: &str| (n == name).then(|| open(path));
    assert_eq!(check("cases/tokenizer/real_models.json", wanted), number);
    golden(name, &open(path));
}

/// Twelve prompts in four modes.
fn golden(name: &str, t: &Tokenizer) {
    let mut count = 0;
    for prompt in json(&format!("golden/tokens_{name}.json"))
        .as_array()
        .unwrap()
    {
        for (mode, expected) in prompt["tokens"].as_object().unwrap() {
            let on = |flag: &str| mode.contains(&format!("{flag}=true"));
            let text = prompt["prompt"].as_str().unwrap();
            let found = t
                .encode(text, on("parse_special"), on("add_special"))
                .unwrap();
            assert_eq!(found, ids(expected), "{name} {} {mode}", prompt["id"]);
            count += 1;
        }
    }
    assert_eq!(count, 48);
}

fn main() {
    common::run(vec![
        trial("tiny_vocabularies", tiny_vocabularies),
        trial("qwen2_text_is_composed_first", qwen2_text_is_composed_first),
        model_trial("smollm2_cases", "SmolLM2-135M-Instruct.Q4_1.gguf", |path| {
            real_cases("smollm2", path, 82)
        }),
        model_trial("gemma3_cases", "gemma-3-270m.Q4_K_M.gguf", |path| {
            real_cases("gemma3", path, 75)
        }),
    ]);
}
