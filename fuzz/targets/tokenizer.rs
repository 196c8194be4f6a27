//! Tokenizers: a vocabulary made of the input is built, and a text goes through it there and back. An
//! input that is a GGUF file is taken as it is. Else its first bytes choose model, pre-tokenizer and
//! flags, and the lines after them are tokens up to an empty line, merges up to the next, and text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokstep::gguf::{Array, Gguf, Value, header};
use tokstep::text::Tokenizer;

const PRES: [&str; 8] = [
    "gpt-2", "default", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-v3", "falcon",
];

fuzz_target!(|data: &[u8]| {
    let text = match data.starts_with(b"GGUF") {
        true => "Hi <s> \u{1F600} 日本\n  12345",
        false => "",
    };
    let (file, text) = match data.starts_with(b"GGUF") {
        true => (data.to_vec(), text.as_bytes()),
        false => match made_of(data) {
            Some(made) => made,
            None => return,
        },
    };
    let Ok(gguf) = Gguf::from_bytes("fuzz", file) else {
        return;
    };
    let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    for special in [false, true] {
        let Ok(ids) = tokenizer.encode(&text, special, true) else {
            continue;
        };
        assert!(ids.iter().all(|id| (*id as usize) < tokenizer.n_vocab()));
        tokenizer.decode(&ids, special);
    }
    let all: Vec<u32> = (0..tokenizer.n_vocab() as u32 + 2).collect();
    tokenizer.decode(&all, true);
    let _ = tokenizer.encode_prompt([&*text, "", &text], true);
});

fn made_of(data: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let [flags, pre, role, rest @ ..] = data else {
        return None;
    };
    let mut lines = rest.split(|b| *b == b'\n');
    let tokens: Vec<&[u8]> = lines.by_ref().take_while(|l| !l.is_empty()).collect();
    let merges: Vec<&[u8]> = lines.by_ref().take_while(|l| !l.is_empty()).collect();
    let left: usize = tokens.iter().chain(&merges).map(|l| l.len() + 1).sum::<usize>() + 2;
    let text = rest.get(left.min(rest.len())..)?;
    let on = |bit: u8| flags >> bit & 1 == 1;
    let kinds: Vec<i32> = tokens
        .iter()
        .enumerate()
        .map(|(i, t)| (t.first().map_or(i, |b| usize::from(*b)) % 8) as i32)
        .collect();
    let scores: Vec<f32> = (0..tokens.len())
        .map(|i| match i % 7 {
            6 if on(6) => f32::NAN,
            5 if on(6) => -0.0,
            n => -(n as f32),
        })
        .collect();
    let model = if on(0) { "llama" } else { "gpt2" };
    let name = PRES[usize::from(*pre) % PRES.len()];
    let mut meta = vec![
        ("model", Value::Str(model.into())),
        ("pre", Value::Str(name.into())),
        ("tokens", Value::Array(Array::of_strs(tokens))),
        ("scores", Value::Array(Array::of_f32(&scores))),
        ("merges", Value::Array(Array::of_strs(merges))),
        ("add_space_prefix", Value::Bool(on(1))),
        ("add_bos_token", Value::Bool(on(2))),
        ("add_eos_token", Value::Bool(on(3))),
        ("bos_token_id", Value::I32(i32::from(*role) - 1)),
        ("eos_token_id", Value::U8(*role)),
    ];
    if on(4) {
        meta.push(("token_type", Value::Array(Array::of_i32(&kinds))));
    }
    if on(5) {
        meta.push(("unknown_token_id", Value::U64(u64::from(*role) << 5)));
    }
    let meta: Vec<(String, Value)> = meta
        .into_iter()
        .map(|(key, v)| (format!("tokenizer.ggml.{key}"), v))
        .collect();
    Some((header(&meta, &[]), text))
}
