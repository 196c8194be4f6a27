//! `tokstep tokenize`, `detokenize` and `template`: what the text around a model looks like to it.
//! None of them loads the weights.

use super::prompt::{read_stdin, read_text};
use super::{load, out};
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tokstep::gguf::Gguf;
use tokstep::text::{ChatTemplate, Tokenizer};
use tokstep::{Error, Result};

/// Token ids and pieces of a text
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep tokenize -m smollm2 -p 'Hello world'
  tokstep tokenize -m model.gguf --special --bos -p '<|im_start|>user'
  tokstep tokenize -m model.gguf --json < page.txt")]
pub struct TokenizeArgs {
    /// Path of a GGUF file, or a known name
    #[arg(short, long, value_parser = load::not_empty())]
    model: String,
    /// The text; without it, standard input is read
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read special tokens written in the text, such as <|im_end|>, as tokens
    #[arg(long)]
    special: bool,
    /// Add BOS and EOS where the model's file asks for them
    #[arg(long)]
    bos: bool,
    /// Print one JSON object: ids and pieces
    #[arg(long)]
    json: bool,
}

pub fn tokenize(args: &TokenizeArgs) -> Result<()> {
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(&load::path(&args.model)?)?)?;
    let text = match &args.prompt {
        Some(text) => text.clone(),
        None => read_stdin()?,
    };
    let ids = tokenizer.encode(&text, args.special, args.bos)?;
    let piece = |&id: &u32| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    if args.json {
        let pieces: Vec<String> = ids.iter().map(piece).collect();
        return out::line(json!({ "ids": ids, "pieces": pieces }));
    }
    let lines = ids.iter().map(|id| format!("{id:7}  {:?}\n", piece(id)));
    out::text(lines.collect::<String>())
}

/// Text of token ids
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep detokenize -m smollm2 19556,905
  tokstep detokenize -m model.gguf --special 1 4093 2")]
pub struct DetokenizeArgs {
    /// Path of a GGUF file, or a known name
    #[arg(short, long, value_parser = load::not_empty())]
    model: String,
    /// The ids, separated by commas or spaces
    #[arg(required = true, value_name = "IDS", value_delimiter = ',')]
    ids: Vec<u32>,
    /// Show control tokens as well
    #[arg(long)]
    special: bool,
}

pub fn detokenize(args: &DetokenizeArgs) -> Result<()> {
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(&load::path(&args.model)?)?)?;
    let n_vocab = tokenizer.n_vocab() as u32;
    if let Some(&id) = args.ids.iter().find(|&&id| id >= n_vocab) {
        return Err(Error::TokenOutOfRange { id, n_vocab });
    }
    out::line(tokenizer.decode(&args.ids, args.special))
}

/// The prompt that a model's chat template makes of messages
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep template -m smollm2 --messages chat.json
  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | tokstep template -m smollm2 --messages -
  tokstep template -m model.gguf --messages chat.json --tools tools.json --set enable_thinking=false")]
pub struct TemplateArgs {
    /// Path of a GGUF file, or a known name
    #[arg(short, long, value_parser = load::not_empty())]
    model: String,
    /// JSON file with an array of messages, or with an object that has one as `messages` (and may
    /// have `tools`); - reads standard input
    #[arg(long, value_name = "FILE")]
    messages: PathBuf,
    /// JSON file with an array of tools
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Do not begin the assistant's answer
    #[arg(long)]
    no_generation_prompt: bool,
    /// A variable for the template; what is not JSON is taken as text
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, Value)>,
}

fn variable(text: &str) -> std::result::Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("no = in it")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.into(), value))
}

pub fn template(args: &TemplateArgs) -> Result<()> {
    let gguf = Gguf::open(&load::path(&args.model)?)?;
    let template = ChatTemplate::from_gguf(&gguf)?.ok_or_else(|| Error::NoTemplate {
        path: gguf.path().to_owned(),
    })?;
    let given = read_json(&args.messages)?;
    let messages = given.get("messages").unwrap_or(&given);
    if !messages.is_array() {
        return Err(Error::Messages {
            path: args.messages.clone(),
            what: "neither an array of messages nor an object with one".into(),
        });
    }
    let tools = match &args.tools {
        Some(path) => Some(read_json(path)?),
        None => given.get("tools").cloned(),
    };
    let extra: Map<String, Value> = args.variables.iter().cloned().collect();
    out::text(template.render(messages, tools.as_ref(), !args.no_generation_prompt, &extra)?)
}

fn read_json(path: &Path) -> Result<Value> {
    let text = match path.as_os_str() == "-" {
        true => read_stdin()?,
        false => read_text(path)?,
    };
    serde_json::from_str(&text).map_err(|fault| Error::Messages {
        path: path.to_owned(),
        what: format!("not JSON: {fault}"),
    })
}
