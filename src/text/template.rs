//! Chat templates: the Jinja program a GGUF file carries, run as transformers runs it
//! (`apply_chat_template`: `trim_blocks`, `lstrip_blocks`, nothing escaped, its extra functions).

use super::vocab::special_text;
use super::{bound, jinja, json, pycompat};
use crate::gguf::Gguf;
use crate::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Value, machinery};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Work one rendering may do, in minijinja's units (an instruction, or 64 bytes of text): a second
/// and 128 MB at worst, and many times what a chat of a full context needs.
const FUEL: u64 = 2_000_000;

/// Stack for a rendering, in bytes: twice what the deepest value that the fuel pays for needs.
/// It is only reserved; a real template touches some kilobytes.
const STACK: usize = 256 << 20;

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message of this role.
    pub fn new(role: &str, content: &str) -> Message {
        Message {
            role: role.into(),
            content: content.into(),
        }
    }
}

/// Seconds a rendering may take. Fuel and the bound on values end what is too much long before; this is
/// for what they might not count.
const SECONDS: u64 = 5;

/// A compiled template.
pub struct ChatTemplate {
    program: Arc<Program>,
    /// A rendering did not end in time; its thread may still be at work.
    stuck: AtomicBool,
    /// `bos_token` and `eos_token`, where the vocabulary has them.
    tokens: Map<String, Json>,
}

/// What a rendering needs, on whatever thread.
struct Program {
    env: Environment<'static>,
    source: String,
    /// The file's own text, for errors.
    original: String,
    syntax: SyntaxConfig,
}

impl Program {
    /// Compiles, which takes no time beside a prompt, and renders.
    fn render(&self, context: Map<String, Json>) -> Result<String, minijinja::Error> {
        let compiled = bound::compile(NAME, &self.source, &self.syntax)?;
        let mut text = String::new();
        machinery::eval(
            &self.env,
            &compiled.instructions,
            Value::from(Serde(&context)),
            &compiled.blocks,
            &mut machinery::make_string_output(&mut text),
            AutoEscape::None,
        )?;
        Ok(text)
    }
}

const NAME: &str = "chat template";

impl ChatTemplate {
    /// The template in `tokenizer.chat_template`, if the file has one.
    pub fn from_gguf(g: &Gguf) -> Result<Option<ChatTemplate>> {
        let source = g.str("tokenizer.chat_template")?.unwrap_or_default();
        if source.is_empty() {
            return Ok(None);
        }
        let mut template = ChatTemplate::new(source)?;
        for role in ["bos", "eos"] {
            if let Some(text) = special_text(g, role)? {
                template.tokens.insert(format!("{role}_token"), text.into());
            }
        }
        Ok(Some(template))
    }

    /// Compiles a template; a syntax error names the line.
    pub fn new(source: &str) -> Result<ChatTemplate> {
        let original = source.to_owned();
        let source = jinja::for_minijinja(source);
        let mut env = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .expect("jinja's own delimiters are valid");
        env.set_syntax(syntax.clone());
        env.set_auto_escape_callback(|_| AutoEscape::None);
        env.set_debug(false);
        env.set_fuel(Some(FUEL));
        env.set_recursion_limit(200);
        env.set_unknown_method_callback(pycompat::method);
        env.set_formatter(|out, _, value| pycompat::print(out, value));
        env.add_filter("tojson", json::tojson);
        env.add_function("raise_exception", pycompat::raise_exception);
        env.add_function("strftime_now", pycompat::strftime_now);
        bound::add(&mut env);
        let program = Arc::new(Program {
            env,
            source,
            original,
            syntax,
        });
        let checked = Arc::clone(&program);
        let compiled = on_a_deep_stack(move || {
            let compiled = bound::compile(NAME, &checked.source, &checked.syntax);
            compiled.map(drop).map_err(|e| fault(&checked, e))
        })?;
        compiled.unwrap_or(Err(Error::TemplateSlow { seconds: SECONDS }))?;
        Ok(ChatTemplate {
            program,
            stuck: AtomicBool::new(false),
            tokens: Map::new(),
        })
    }

    /// The prompt for `messages` (a JSON array of objects with `role` and `content`), with `tools`
    /// if the model is to have some, ending with the start of the assistant's answer if
    /// `add_generation_prompt`. `extra` variables come last and may replace the others.
    pub fn render(
        &self,
        messages: &Json,
        tools: Option<&Json>,
        add_generation_prompt: bool,
        extra: &Map<String, Json>,
    ) -> Result<String> {
        let mut context = self.tokens.clone();
        context.insert("messages".into(), messages.clone());
        context.insert("tools".into(), tools.cloned().unwrap_or_default());
        context.insert("documents".into(), Json::Null);
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        context.extend(extra.clone());
        if self.stuck.load(Ordering::Relaxed) {
            return Err(Error::TemplateSlow { seconds: SECONDS });
        }
        let program = Arc::clone(&self.program);
        let rendered = on_a_deep_stack(move || {
            let rendered = program.render(context);
            rendered.map_err(|e| fault(&program, e)) // the error may hold a deep value, too
        })?;
        rendered.unwrap_or_else(|| {
            self.stuck.store(true, Ordering::Relaxed);
            Err(Error::TemplateSlow { seconds: SECONDS })
        })
    }

    /// [`ChatTemplate::render`] of plain messages, ending with the start of the answer.
    pub fn render_chat(&self, messages: &[Message]) -> Result<String> {
        let messages = messages
            .iter()
            .map(|m| serde_json::json!({ "role": m.role, "content": m.content }));
        self.render(&Json::Array(messages.collect()), None, true, &Map::new())
    }
}

/// Runs `f` on a thread of its own, whose stack is deep enough for every value that a template can
/// nest with its fuel: printing and dropping such values is recursive. `None` if it takes too long; a
/// thread cannot be ended from outside, so it is left alone.
fn on_a_deep_stack<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<Option<T>> {
    let builder = std::thread::Builder::new().stack_size(STACK);
    let (send, done) = mpsc::channel();
    let thread = builder
        .spawn(move || drop(send.send(f())))
        .map_err(Error::TemplateThread)?;
    match done.recv_timeout(Duration::from_secs(SECONDS)) {
        Ok(value) => Ok(Some(value)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        // A panic of the template engine is the template's fault, which is the file's.
        Err(RecvTimeoutError::Disconnected) => {
            let what = match thread.join() {
                Err(panic) => match panic.downcast::<String>() {
                    Ok(text) => *text,
                    Err(panic) => match panic.downcast_ref::<&str>() {
                        Some(text) => (*text).to_owned(),
                        None => "of an unknown cause".into(),
                    },
                },
                Ok(()) => unreachable!("the thread sends before it ends"),
            };
            Err(Error::TemplateOther(format!(
                "the rendering broke off: {}",
                one_line(&what, WORDS)
            )))
        }
    }
}

/// An error with the line it is about, as the file has it.
fn fault(program: &Program, error: minijinja::Error) -> Error {
    let what = match error.detail() {
        Some(detail) => one_line(detail, WORDS),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => {
            let nth = |text: &'_ str| text.lines().nth(line.max(1) - 1).map(str::to_owned);
            let column = error.range().map_or(0, |range| {
                let before = program.source.get(..range.start).unwrap_or_default();
                let before = before.rsplit('\n').next().unwrap_or_default();
                before.replace(jinja::FACTOR, "").chars().count()
            });
            Error::Template {
                line,
                source_line: quote(&nth(&program.original).unwrap_or_default(), column),
                what,
            }
        }
        None => Error::TemplateOther(what),
    }
}

/// Characters of a template's own words in an error.
const WORDS: usize = 500;

/// Characters of a line that an error quotes.
const QUOTED: usize = 200;

/// The stretch of a line around a column: a template may be one line of megabytes.
fn quote(line: &str, column: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let count = line.chars().count();
    if count <= QUOTED {
        return line.chars().map(clean).collect();
    }
    let start = column.saturating_sub(QUOTED / 2).min(count - QUOTED);
    let shown = line.chars().skip(start).take(QUOTED).map(clean);
    let (head, tail) = (start > 0, start + QUOTED < count);
    let dots = |cut: bool| if cut { "..." } else { "" };
    dots(head)
        .chars()
        .chain(shown)
        .chain(dots(tail).chars())
        .collect()
}

/// Words of a template or a driver as one line of at most so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            return out + "...";
        }
        match c {
            c if !c.is_control() && !c.is_whitespace() => out.push(c),
            _ if !out.ends_with(' ') => out.push(' '),
            _ => {}
        }
    }
    out.trim_end().to_owned()
}
