//! Stages of the file: integrity, text of the metadata, format, tokenizer, template.

use super::Doctor;
use super::stage::{Outcome, Whose};
use serde_json::json;
use std::path::{Path, PathBuf};
use tokstep::gguf::{self, Gguf, Value};
use tokstep::model::Model;
use tokstep::models::{self, Named};
use tokstep::text::{ChatTemplate, Tokenizer};
use tokstep::{Error, Result};

/// What a tokenizer must give back: letters with and without accents, digits, other scripts, signs.
const SAMPLE: &str = "Hello, world! It's 1984: café, naïve; 你好, Привет 🙂 x = {a: [1, 2]}\n\tend";

pub(super) const AGAIN: &str = "download or convert the file again, with a current converter";

/// Looks at the file; what was opened.
pub fn stages(d: &mut Doctor, model: &str) -> Result<Option<Gguf>> {
    let mut path = None;
    d.stage("file", Whose::File, &[], || match integrity(model) {
        Ok((found, outcome)) => {
            path = found;
            outcome
        }
        Err(e) => Outcome::of(&e, "give the path of a GGUF file that can be read"),
    })?;
    // One opening serves two stages.
    let opened = path.as_deref().map(Gguf::open);
    // A wrong checksum keeps nobody from reading on.
    let there: &[&str] = if path.is_some() { &[] } else { &["file"] };
    d.stage("encoding", Whose::File, there, || match &opened {
        Some(Ok(gguf)) => encoding(gguf),
        Some(Err(e @ Error::TensorName { .. })) => Outcome::of(e, AGAIN),
        _ => Outcome::Skipped("the metadata cannot be read, see format".into()),
    })?;
    d.stage("format", Whose::File, there, || match &opened {
        Some(Ok(gguf)) => format(gguf),
        Some(Err(e)) => Outcome::of(e, AGAIN),
        None => Outcome::Skipped("there is no file".into()),
    })?;
    let gguf = opened.and_then(Result::ok);
    d.stage("tokenizer", Whose::File, &["format"], || {
        gguf.as_ref().map_or_else(gone, tokenizer)
    })?;
    d.stage("template", Whose::File, &["format"], || {
        gguf.as_ref().map_or_else(gone, template)
    })?;
    Ok(gguf)
}

fn gone() -> Outcome {
    Outcome::Skipped("the file could not be opened".into())
}

/// Whether the file is there and is, byte for byte, what it should be, as far as that is known.
fn integrity(model: &str) -> Result<(Option<PathBuf>, Outcome)> {
    let (path, known) = match models::resolve(model)? {
        Named::Path(path) => {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            let known = models::ALL.iter().find(|k| Some(k.file) == name.as_deref());
            (path, known)
        }
        Named::Known(known) => {
            let path = models::cache_dir()?.join(known.file);
            if !path.is_file() {
                let what = format!("{} is not in the cache", known.name);
                let advice = format!("fetch it: tokstep pull {}", known.name);
                return Ok((None, Outcome::Failed(what, advice)));
            }
            (path, Some(known))
        }
    };
    let by_name = by_name(model);
    let (mut bytes, mut hashes) = (0, vec![]);
    for file in gguf::split_files(&path) {
        let hash = models::sha256(&file, &mut |n| bytes += n);
        hashes.push(hash.map_err(|source| Error::Io { path: file, source })?);
    }
    let found = format!("{bytes} bytes, sha256 {}", hashes.join(" + "));
    let outcome = match known {
        Some(k) if hashes == [k.sha256] => Outcome::Fine(format!("{found}, as published")),
        Some(k) if by_name => {
            let wrong = format!(
                "{found}, but {} has {} and {} bytes",
                k.name, k.sha256, k.bytes
            );
            let advice = format!("remove it and fetch it again: tokstep pull {}", k.name);
            return Ok((Some(path), Outcome::Failed(wrong, advice)));
        }
        Some(k) => Outcome::Note(
            format!(
                "{found}; the file of this name that tokstep knows has {}",
                k.sha256
            ),
            "it may be another conversion, or damaged: compare with where it came from".into(),
        ),
        None => Outcome::Fine(format!(
            "{found}; whether that is right only its publisher's page tells"
        )),
    };
    Ok((Some(path), outcome))
}

fn by_name(model: &str) -> bool {
    !Path::new(model).is_file()
}

/// Whether keys and texts of the metadata are UTF-8.
fn encoding(g: &Gguf) -> Outcome {
    let (mut texts, mut bad, mut odd) = (0, vec![], vec![]);
    for (key, value) in g.meta() {
        if key.contains('\u{FFFD}') {
            bad.push(key.clone());
        }
        if let Value::Str(bytes) = value {
            texts += 1;
            match std::str::from_utf8(bytes) {
                Err(_) => bad.push(key.clone()),
                // UTF-8 that was taken for Latin-1 and encoded once more, or was lost before.
                Ok(text) if text.contains('\u{FFFD}') || text.contains("Ã©") => {
                    odd.push(key.clone());
                }
                Ok(_) => (),
            }
        }
    }
    let tokens = g.strs("tokenizer.ggml.tokens").ok().flatten();
    let tokens = tokens.unwrap_or_default();
    let bytes = tokens.iter().filter(|t| str::from_utf8(t).is_err()).count();
    if !bad.is_empty() {
        let wrong = format!("not UTF-8: {}", bad.join(", "));
        return Outcome::Failed(wrong, AGAIN.into());
    }
    if !odd.is_empty() {
        let what = format!("texts that were encoded twice or lost: {}", odd.join(", "));
        return Outcome::Note(what, AGAIN.into());
    }
    let rest = match bytes {
        0 => String::new(),
        n => format!(", {n} of them bytes that are no UTF-8, as tokens may be"),
    };
    Outcome::Fine(format!(
        "{} keys and {texts} texts are UTF-8; {} tokens{rest}",
        g.meta().len(),
        tokens.len()
    ))
}

/// Whether it is a model that we run: architecture, shapes, types.
fn format(g: &Gguf) -> Outcome {
    match Model::from_gguf(g) {
        Ok(model) => Outcome::Fine(format!(
            "GGUF version {}, {}, {} tensors, {:.1} M weights",
            g.version(),
            model.hyper.arch,
            g.tensors().len(),
            g.tensors().iter().map(|t| t.weights()).sum::<u64>() as f64 / 1e6
        )),
        Err(e) => Outcome::of(&e, "`tokstep info` shows all that is in the file"),
    }
}

/// Whether text comes back out of its tokens.
fn tokenizer(g: &Gguf) -> Outcome {
    let t = match Tokenizer::from_gguf(g) {
        Ok(t) => t,
        Err(e) => return Outcome::of(&e, AGAIN),
    };
    let ids = match t.encode(SAMPLE, false, false) {
        Ok(ids) => ids,
        Err(e) => return Outcome::of(&e, AGAIN),
    };
    let back = t.decode(&ids, true);
    // SentencePiece puts a space before the first word.
    let same = back == SAMPLE || back.strip_prefix(' ') == Some(SAMPLE);
    let found = format!("{} tokens", t.n_vocab());
    match same {
        true => Outcome::Fine(format!(
            "{found}; a sample of {} came back whole",
            ids.len()
        )),
        // Small vocabularies lack characters: they lose them, as their makers meant them to.
        false => Outcome::Note(
            format!("{found}; a sample of many scripts came back changed"),
            "a vocabulary without bytes cannot write every character; with others, convert again"
                .into(),
        ),
    }
}

/// Whether the chat template renders.
fn template(g: &Gguf) -> Outcome {
    let advice = "use --raw to go without it, or a file with a repaired template";
    let template = match ChatTemplate::from_gguf(g) {
        Ok(Some(t)) => t,
        Ok(None) => {
            return Outcome::Note(
                "there is none".into(),
                "a base model completes text: `chat` needs an instruct model".into(),
            );
        }
        Err(e) => return Outcome::of(&e, advice),
    };
    let messages = json!([
        { "role": "user", "content": "one" },
        { "role": "assistant", "content": "two" },
        { "role": "user", "content": "three" },
    ]);
    match template.render(&messages, None, true, &Default::default()) {
        Err(e) => Outcome::of(&e, advice),
        Ok(text) if !["one", "three"].iter().all(|t| text.contains(t)) => Outcome::Failed(
            "a rendered conversation lacks what the user said".into(),
            advice.into(),
        ),
        Ok(text) => Outcome::Fine(format!(
            "three turns became {} characters",
            text.chars().count()
        )),
    }
}
