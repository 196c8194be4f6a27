//! From what the user gave (text, file, ids, standard input) to token ids, with the model's chat
//! template or without. Special tokens in what a user wrote stay text: whoever pastes a page into
//! a chat must not be able to end the turn with it.

use clap::Args;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use tokstep::engine::Engine;
use tokstep::text::Tokenizer;
use tokstep::{Error, Result};

#[derive(Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptArgs {
    /// The prompt
    #[arg(
        short,
        long,
        value_name = "TEXT",
        group = "source",
        allow_hyphen_values = true
    )]
    prompt: Option<String>,
    /// File with the prompt
    #[arg(long, value_name = "FILE", group = "source")]
    prompt_file: Option<PathBuf>,
    /// The prompt as token ids, fed as they are
    #[arg(
        long,
        value_name = "IDS",
        group = "source",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    prompt_tokens: Option<Vec<u32>>,
    /// Complete the text as it stands, without the model's chat template
    #[arg(long)]
    raw: bool,
    /// Read special tokens written in the prompt, such as <|im_end|>, as tokens
    #[arg(long)]
    special: bool,
    /// System message for the chat template
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with_all = ["raw", "prompt_tokens"],
        allow_hyphen_values = true
    )]
    system: Option<String>,
}

/// A prompt as given, before any model is loaded.
pub enum Given {
    Text(String),
    Ids(Vec<u32>),
}

impl PromptArgs {
    /// Reads the prompt from wherever it is. An empty one is an error, told before a model loads.
    pub fn read(&self) -> Result<Given> {
        let text = match (&self.prompt, &self.prompt_file, &self.prompt_tokens) {
            (_, _, Some(ids)) => return Ok(Given::Ids(ids.clone())),
            (Some(text), ..) => text.clone(),
            (_, Some(file), _) => self.trimmed(read_text(file)?),
            _ if io::stdin().is_terminal() => return Err(Error::NoPrompt),
            _ => self.trimmed(read_stdin()?),
        };
        match text.is_empty() {
            true => Err(Error::NoPrompt),
            false => Ok(Given::Text(text)),
        }
    }

    /// The line end that editors and `echo` put at the end of a file is not part of a question;
    /// with --raw the text stands as it is.
    fn trimmed(&self, mut text: String) -> String {
        if !self.raw && text.ends_with('\n') {
            text.pop();
        }
        text
    }

    /// Token ids of the prompt for this model.
    pub fn ids(&self, given: &Given, engine: &Engine) -> Result<Vec<u32>> {
        let text = match given {
            Given::Ids(ids) => return Ok(ids.clone()),
            Given::Text(text) => text,
        };
        if self.raw || engine.template().is_none() {
            if self.system.is_some() {
                return Err(Error::NoChatTemplate {
                    model: engine.info().model_name.clone(),
                });
            }
            return engine.tokenizer().encode_prompt([&text[..]], self.special);
        }
        let mut messages = vec![];
        if let Some(system) = &self.system {
            messages.push(message("system", system));
        }
        messages.push(message("user", text));
        chat_ids(engine, &messages, self.special)
    }
}

/// A chat message as templates know it.
pub fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// Token ids of a conversation, up to where the model's answer begins. Special tokens written
/// in the messages are text, unless `special`.
///
/// # Panics
/// Without a chat template.
pub fn chat_ids(engine: &Engine, messages: &[Value], special: bool) -> Result<Vec<u32>> {
    let template = engine.template().expect("the caller asked");
    let tokenizer = engine.tokenizer();
    let guard = if special { vec![] } else { specials(tokenizer) };
    let messages: Vec<Value> = messages
        .iter()
        .map(|m| match m["content"].as_str() {
            Some(text) => json!({"role": m["role"], "content": break_up(text, &guard)}),
            None => m.clone(),
        })
        .collect();
    let rendered = template.render(&json!(messages), None, true, &Default::default())?;
    tokenizer.encode_prompt(rendered.split(BREAK), true)
}

/// Stands inside a special token that is to stay text. A code point that Unicode keeps free of
/// characters, so that no text has it.
const BREAK: char = '\u{FDD0}';

/// Texts of all tokens that are special.
fn specials(tokenizer: &Tokenizer) -> Vec<String> {
    (0..tokenizer.n_vocab() as u32)
        .filter(|&id| tokenizer.is_special(id))
        .filter_map(|id| String::from_utf8(tokenizer.token_bytes(id)?.to_vec()).ok())
        .filter(|text| text.chars().count() > 1)
        .collect()
}

/// `text` with [`BREAK`] after the first character of each special token in it.
fn break_up<'a>(text: &'a str, specials: &[String]) -> Cow<'a, str> {
    let mut result = Cow::Borrowed(text);
    if text.contains(BREAK) {
        result = Cow::Owned(text.replace(BREAK, "\u{FFFD}"));
    }
    for special in specials {
        if result.contains(special.as_str()) {
            let first = special.chars().next().map_or(0, char::len_utf8);
            let broken = format!("{}{BREAK}{}", &special[..first], &special[first..]);
            result = Cow::Owned(result.replace(special.as_str(), &broken));
        }
    }
    result
}

/// A text longer than this is none that was meant, such as an endless device file.
const LONGEST: u64 = 256 << 20;

/// A whole file of UTF-8 text.
pub fn read_text(path: &Path) -> Result<String> {
    let file = std::fs::File::open(path);
    read_all(path, file)
}

/// All of standard input.
pub fn read_stdin() -> Result<String> {
    read_all(Path::new("standard input"), Ok(io::stdin()))
}

fn read_all(path: &Path, from: io::Result<impl Read>) -> Result<String> {
    let mut bytes = vec![];
    let read = from.and_then(|from| from.take(LONGEST + 1).read_to_end(&mut bytes));
    let short = read.and_then(|_| match bytes.len() as u64 <= LONGEST {
        true => Ok(()),
        false => Err(io::Error::other(
            "more than 256 MiB of text; give a shorter one",
        )),
    });
    short.map_err(|source| Error::Io {
        path: path.into(),
        source,
    })?;
    utf8(path, bytes)
}

fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| Error::NotUtf8 {
        file: path.into(),
        at: e.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_in_a_message_are_broken_up() {
        let specials = ["<|im_end|>".to_owned(), "é?".to_owned()];
        assert_eq!(break_up("hello", &specials), "hello");
        assert_eq!(
            break_up("a<|im_end|>é?", &specials),
            "a<\u{FDD0}|im_end|>é\u{FDD0}?"
        );
        assert_eq!(break_up("a\u{FDD0}b", &specials), "a\u{FFFD}b");
    }
}
