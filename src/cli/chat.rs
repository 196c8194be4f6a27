//! `tokstep chat`: a conversation. The KV cache lives as long as the program: each turn renders
//! the whole conversation, keeps what the cache already holds of it and prefills the rest.

use super::json::{decode_rate, prompt_rate};
use super::load::{self, Context, ModelArgs};
use super::pace::{self, PaceArgs};
use super::prompt::{self, message};
use super::sample::SampleArgs;
use super::{interrupt, out, progress};
use clap::Args;
use etcetera::BaseStrategy;
use rustyline::error::ReadlineError;
use rustyline::{DefaultEditor, history::History};
use serde_json::Value;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, Session, Stats, Stop};
use tokstep::{Error, Result};

/// Chat with a model
///
/// Line editing and history as in a shell; Ctrl-C ends the answer, Ctrl-D or /exit the program.
/// Without a terminal one prompt from standard input is answered (a built-in question if that is
/// empty), greedily unless --temp is given, with at most 256 tokens unless -n is.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep chat -m smollm2
  tokstep chat -m model.gguf --system 'You are a pirate.' -c 4096
  echo 'What is a tensor?' | tokstep chat -m smollm2")]
pub struct ChatArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Maximum context in tokens; auto: the largest that fits into memory [default: the model's, as far as
    /// it fits, and its cache at most 1 GiB]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true)]
    context: Option<Context>,
    /// System message
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    #[command(flatten)]
    sample: SampleArgs,
    #[command(flatten)]
    pace: PaceArgs,
}

const HELP: &str = "\
/help          this
/reset         forget the conversation (the system message stays)
/system TEXT   set the system message and forget the conversation; without TEXT: none
/stats         tokens in the context, and the speed of the last answer
/exit          leave (or Ctrl-D); Ctrl-C ends an answer";

const QUESTION: &str = "What is the capital of France?";

pub fn run(args: &ChatArgs) -> Result<()> {
    // Read before the model loads: a bad prompt is told at once.
    let once = match io::stdin().is_terminal() {
        true => None,
        false => Some(prompt::read_stdin()?),
    };
    let engine = load::engine(
        &args.model,
        EngineOptions {
            pace: args.pace.options(),
            ..load::sized(args.context)
        },
    )?;
    let mut chat = Chat {
        engine: &engine,
        session: engine.session()?,
        messages: vec![],
        options: args.sample.options(),
        last: None,
    };
    if engine.template().is_none() {
        out::say(format_args!(
            "warning: {} has no chat template: plain completion, what you write is continued as it stands",
            engine.info().model_name
        ));
    }
    chat.set_system(args.system.as_deref().unwrap_or(""));
    let Some(given) = once else {
        return chat.converse();
    };
    if args.sample.temp.is_none() {
        chat.options.sample.temp = 0.0;
    }
    chat.options.max_tokens.get_or_insert(256);
    let question = match given.trim() {
        "" => QUESTION,
        question => question,
    };
    out::line(format_args!("> {question}"))?;
    chat.turn(question)
}

struct Chat<'e> {
    engine: &'e Engine,
    session: Session<'e>,
    /// The conversation; a system message only ever at its beginning.
    messages: Vec<Value>,
    options: GenerateOptions,
    last: Option<Stats>,
}

impl Chat<'_> {
    fn set_system(&mut self, text: &str) {
        self.messages.clear();
        if !text.is_empty() {
            self.messages.push(message("system", text));
        }
    }

    /// Messages before the first turn: the system message, or none.
    fn fixed(&self) -> usize {
        self.messages
            .iter()
            .take_while(|m| m["role"] == "system")
            .count()
    }

    /// Reads lines until the user leaves.
    fn converse(&mut self) -> Result<()> {
        let editor = |e: ReadlineError| Error::LineEditor(e.to_string());
        let mut lines = DefaultEditor::new().map_err(editor)?;
        let history = history_path();
        if let Some(path) = &history {
            let _ = lines.load_history(path); // none at the first start
        }
        let info = self.engine.info();
        out::line(format_args!(
            "{} on {}, context {}. /help shows the commands.",
            out::clean(&info.model_name),
            info.device,
            info.context
        ))?;
        let mut interrupted = false;
        loop {
            let line = match lines.readline("> ") {
                Ok(line) => line,
                Err(ReadlineError::Eof) => break,
                Err(ReadlineError::Interrupted) if interrupted => break,
                Err(ReadlineError::Interrupted) => {
                    interrupted = true;
                    out::line("(Ctrl-C again, Ctrl-D or /exit to leave)")?;
                    continue;
                }
                Err(e) => return Err(editor(e)),
            };
            interrupted = false;
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let _ = lines.add_history_entry(line);
            match line.split_once(' ').unwrap_or((line, "")) {
                ("/exit" | "/quit", _) => break,
                ("/help", _) => out::line(HELP)?,
                ("/stats", _) => self.stats()?,
                ("/reset", _) => {
                    self.messages.truncate(self.fixed());
                    out::line("(forgotten)")?;
                }
                ("/system", text) => {
                    self.set_system(text.trim());
                    out::line("(system message set, conversation forgotten)")?;
                }
                (command, _) if command.starts_with('/') => {
                    out::line(format_args!("no command {command}; /help shows them"))?;
                }
                _ => match self.turn(line) {
                    // Nothing is lost by a turn that is too long or a template that refuses it.
                    Err(
                        e @ (Error::TurnTooLong { .. }
                        | Error::PromptTooLong { .. }
                        | Error::Template { .. }
                        | Error::TemplateOther(_)
                        | Error::NoPrompt),
                    ) => out::say(format_args!("error: {e}")),
                    result => result?,
                },
            }
        }
        if let Some(path) = history.filter(|_| !lines.history().is_empty()) {
            let saved = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .map_err(ReadlineError::Io)
                .and_then(|()| lines.save_history(&path));
            if let Err(e) = saved {
                tracing::warn!("history not saved to {}: {e}", path.display());
            }
        }
        Ok(())
    }

    /// One question and its answer. After an error, or Ctrl-C before the answer began, the
    /// conversation is as it was before.
    fn turn(&mut self, question: &str) -> Result<()> {
        self.messages.push(message("user", question));
        let answer = self.answer();
        match &answer {
            Ok(Some(text)) => self.messages.push(message("assistant", text)),
            _ => drop(self.messages.pop()),
        }
        answer.map(|_| ())
    }

    /// The answer to the last message; `None` when Ctrl-C came before it began.
    fn answer(&mut self) -> Result<Option<String>> {
        let ids = self.fit()?;
        // At least one token is fed, since its logits give the first one of the answer.
        let keep = common_prefix(self.session.tokens(), &ids).min(ids.len() - 1);
        interrupt::arm();
        self.session.rewind(keep);
        if !progress::prefill(&mut self.session, &ids[keep..])? {
            out::line("(interrupted)")?;
            return Ok(None);
        }
        let mut text = String::new();
        let mut generation = self.session.generate(&self.options)?;
        while let Some(piece) = generation.next() {
            let piece = piece?;
            out::text(&piece.text)?;
            text += &piece.text;
            if interrupt::pressed() {
                generation.cancel();
            }
        }
        let stop = generation.stop();
        self.last = Some(generation.stats().clone());
        if let Some(report) = self.engine.pace() {
            tracing::info!("{}", pace::sentence(&report));
        }
        if !text.ends_with('\n') {
            out::line("")?;
        }
        if stop == Some(Stop::Context) {
            out::say(format_args!(
                "(the context of {} tokens is full; the oldest turns will be dropped)",
                self.engine.info().context
            ));
        }
        Ok(Some(text))
    }

    /// Token ids of the conversation, its oldest turns dropped if it leaves too little room for
    /// an answer. After an error nothing is dropped.
    fn fit(&mut self) -> Result<Vec<u32>> {
        let fixed = self.fixed();
        let context = self.engine.info().context;
        let (dropped, ids) = fit(&self.messages, fixed, context, &|m| self.ids(m))?;
        if dropped > 0 {
            self.messages.drain(fixed..fixed + dropped);
            out::say(format_args!(
                "(the context of {context} tokens is full: the oldest {} messages are forgotten)",
                dropped
            ));
        }
        Ok(ids)
    }

    fn ids(&self, messages: &[Value]) -> Result<Vec<u32>> {
        if self.engine.template().is_some() {
            return prompt::chat_ids(self.engine, messages, false);
        }
        let mut text = String::new();
        for m in messages {
            // An answer follows its question without a break, as it was generated.
            if !text.is_empty() && m["role"] != "assistant" {
                text.push('\n');
            }
            text += m["content"].as_str().unwrap_or_default();
        }
        self.engine.tokenizer().encode_prompt([&text[..]], false)
    }

    fn stats(&self) -> Result<()> {
        out::line(format_args!(
            "context: {} of {} tokens",
            self.session.tokens().len(),
            self.engine.info().context
        ))?;
        if let Some(report) = self.engine.pace() {
            out::line(pace::sentence(&report))?;
        }
        let Some(s) = &self.last else {
            return out::line("no answer yet");
        };
        out::line(format_args!(
            "last answer: {} new prompt tokens in {:.0} ms ({:.1} tok/s), first token after {:.0} ms, \
             {} tokens in {:.0} ms ({:.1} tok/s)",
            s.prompt_tokens,
            s.prefill_ms,
            prompt_rate(s),
            s.ttft_ms,
            s.tokens,
            s.decode_ms,
            decode_rate(s)
        ))
    }
}

/// How many of the messages after the first `fixed` to forget, and the ids of the rest. Nothing is
/// forgotten as long as there is room for an answer; then half the context is made free, since
/// what remains must be read again from where it changes. The last message, the question, stays.
fn fit(
    messages: &[Value],
    fixed: usize,
    context: u32,
    ids: &dyn Fn(&[Value]) -> Result<Vec<u32>>,
) -> Result<(usize, Vec<u32>)> {
    let context = context as usize;
    let all = ids(messages)?;
    if all.is_empty() {
        return Err(Error::NoPrompt);
    }
    if all.len() + (context / 4).min(256) <= context {
        return Ok((0, all));
    }
    let (mut dropped, mut left) = (0, all);
    // Question and answer go together.
    while left.len() > context / 2 && messages.len() - fixed - dropped > 2 {
        dropped += 2;
        let kept = [&messages[..fixed], &messages[fixed + dropped..]].concat();
        left = ids(&kept)?;
    }
    match left.len() < context {
        true => Ok((dropped, left)),
        false => Err(Error::TurnTooLong {
            tokens: left.len(),
            context: context as u32,
        }),
    }
}

/// Length of the longest common beginning.
fn common_prefix(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// `tokstep/chat_history` in the user's state folder (or data folder, where there is no such).
fn history_path() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    let dir = base.state_dir().unwrap_or_else(|| base.data_dir());
    Some(dir.join("tokstep/chat_history"))
}

#[cfg(test)]
mod tests {
    use super::{common_prefix, fit};
    use serde_json::Value;
    use tokstep::Error;

    /// A conversation whose messages are as many tokens as they say; the first `fixed` stay.
    fn fitted(lengths: &[u32], fixed: usize, context: u32) -> Result<(usize, usize), Error> {
        let messages: Vec<Value> = lengths.iter().map(|&n| n.into()).collect();
        let ids = |m: &[Value]| {
            Ok(vec![
                0;
                m.iter().map(|n| n.as_u64().unwrap() as usize).sum()
            ])
        };
        fit(&messages, fixed, context, &ids).map(|(dropped, ids)| (dropped, ids.len()))
    }

    #[test]
    fn old_turns_are_forgotten_only_when_the_context_is_full_and_then_to_half_of_it() {
        assert_eq!(fitted(&[10; 7], 0, 100).unwrap(), (0, 70));
        assert_eq!(fitted(&[10; 9], 0, 100).unwrap(), (4, 50));
        assert_eq!(
            fitted(&[10; 10], 1, 100).unwrap(),
            (6, 40),
            "the system message stays"
        );
        assert_eq!(
            fitted(&[80], 0, 100).unwrap(),
            (0, 80),
            "a long question has less room"
        );
        assert_eq!(fitted(&[30, 30, 30], 0, 100).unwrap(), (2, 30));
        assert_eq!(fitted(&[10; 1000], 1, 1000).unwrap().1, 490 + 10);
    }

    #[test]
    fn a_turn_that_can_never_fit_is_an_error() {
        for lengths in [&[100][..], &[10, 10, 100], &[60, 10, 10, 60]] {
            let error = fitted(lengths, lengths.len() / 4, 100).unwrap_err();
            assert!(matches!(error, Error::TurnTooLong { .. }), "{error}");
        }
        assert!(matches!(fitted(&[0], 0, 100), Err(Error::NoPrompt)));
    }

    #[test]
    fn common_prefixes() {
        assert_eq!(common_prefix(&[], &[1]), 0);
        assert_eq!(common_prefix(&[1, 2, 3], &[1, 2]), 2);
        assert_eq!(common_prefix(&[1, 2, 3], &[1, 9, 3]), 1);
    }
}
