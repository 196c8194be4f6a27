//! What chat templates take from Python and minijinja's own Python layer lacks: some string and
//! list methods, floats printed as Python prints them, and the current time.

use super::bound;
use super::json::float;
use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, Output, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::fmt::Write;

/// Methods of strings, lists and maps.
pub(super) fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    bound::check(state, args)?;
    if let Some(text) = value.as_str() {
        pay(state, text, name, args)?;
    }
    let found = match (value.kind(), value.as_str()) {
        (_, Some(text)) => string_method(text, name, args)?,
        (ValueKind::Seq, _) if name == "index" => {
            let (item,): (&Value,) = from_args(args)?;
            let place = value.try_iter()?.position(|v| v == *item);
            Some(Value::from(place.ok_or_else(|| absent(item))?))
        }
        (ValueKind::Seq | ValueKind::Map, _) if name == "copy" => {
            let () = from_args(args)?;
            Some(value.clone())
        }
        _ => None,
    };
    match found {
        Some(value) => Ok(value),
        None => unknown_method_callback(state, value, name, args),
    }
}

/// Pays for what a method of a text makes, where it may be much more than what it is made of.
fn pay(state: &State, text: &str, name: &str, args: &[Value]) -> Result<(), Error> {
    let of = args.first();
    match name {
        "format" => {
            let mut longest = 0;
            for arg in args {
                let mut count = Limited(Nowhere, PRINT_LIMIT);
                if arg.as_str().is_none() {
                    write!(count, "{arg}")?;
                }
                let len = arg.as_str().map_or(PRINT_LIMIT - count.1, str::len);
                longest = longest.max(len);
            }
            bound::brace_fields(state, text, longest)
        }
        "split" | "rsplit" => bound::parts(state, text, bound::split_count(text, of, args.get(1))),
        "splitlines" => bound::parts(state, text, text.matches('\n').count()),
        "partition" | "rpartition" => bound::parts(state, text, 3),
        "join" => {
            let of = of.cloned().unwrap_or_default();
            if let Some(chars) = of.as_str() {
                bound::parts(state, chars, chars.chars().count())?;
            }
            let all = of.len().unwrap_or(0).saturating_mul(text.len());
            state.consume_fuel(all as u64 / 64)
        }
        _ => Ok(()),
    }
}

/// Where text goes whose length alone is of interest.
struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        Ok(())
    }
}

fn absent(what: &Value) -> Error {
    let mut shown = String::new();
    let _ = write!(Limited(&mut shown, 200), "{what}"); // what is longer is cut off
    Error::new(ErrorKind::InvalidOperation, format!("{shown} is not in it"))
}

fn string_method(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let list = |parts: Vec<&str>| parts.into_iter().map(Value::from).collect::<Value>();
    Ok(Some(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "partition" => {
            let (at,): (&str,) = from_args(args)?;
            list(match text.split_once(at) {
                Some((head, tail)) => vec![head, at, tail],
                None => vec![text, "", ""],
            })
        }
        "rpartition" => {
            let (at,): (&str,) = from_args(args)?;
            list(match text.rsplit_once(at) {
                Some((head, tail)) => vec![head, at, tail],
                None => vec!["", "", text],
            })
        }
        "rsplit" => {
            let (at, most): (Option<&str>, Option<i64>) = from_args(args)?;
            let most = most
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(usize::MAX);
            list(rsplit(text, at, most))
        }
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            let at = what.as_str().and_then(|what| text.find(what));
            let at = at.ok_or_else(|| absent(what))?;
            Value::from(text[..at].chars().count())
        }
        "casefold" => {
            let () = from_args(args)?;
            Value::from(text.to_lowercase())
        }
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let digits = text.trim_start_matches(['+', '-']);
            let sign = &text[..text.len() - digits.len()];
            let missing = width.min(1000).saturating_sub(text.chars().count());
            Value::from(format!("{sign}{}{digits}", "0".repeat(missing)))
        }
        _ => return Ok(None),
    }))
}

/// Splits from the end, at most `most` times.
fn rsplit<'t>(text: &'t str, at: Option<&str>, most: usize) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut rest = match at {
        Some(_) => text,
        None => text.trim(),
    };
    while parts.len() < most {
        let cut = match at {
            Some(at) => rest.rsplit_once(at),
            None => rest
                .rsplit_once(char::is_whitespace)
                .map(|(head, tail)| (head.trim_end(), tail)),
        };
        let Some((head, tail)) = cut else { break };
        parts.push(tail);
        rest = head;
    }
    if at.is_some() || !rest.is_empty() {
        parts.push(rest);
    }
    parts.reverse();
    parts
}

/// Bytes that one printed value may have: a value that holds another many times prints endlessly.
const PRINT_LIMIT: usize = 64 << 20;

/// A writer that refuses what goes beyond a number of bytes.
struct Limited<W>(W, usize);

impl<W: Write> Write for Limited<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.1 = self.1.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        self.0.write_str(text)
    }
}

/// Prints a value as Python's `str` does.
pub(super) fn print(out: &mut Output, value: &Value) -> Result<(), Error> {
    match f64::try_from(value.clone()) {
        Ok(number) if value.is_number() && !value.is_integer() => out.write_str(&float(number))?,
        _ if !bound::walk(value, &mut (PRINT_LIMIT as u64)) => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "a value that is too large, or holds itself",
            ));
        }
        _ => write!(Limited(out, PRINT_LIMIT), "{value}")?,
    }
    Ok(())
}

/// `strftime_now(format)`: local date and time, in the letters of C's `strftime`.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::Zoned::now()).map_err(|fault| {
        let what = format!("strftime_now({format:?}): {fault}");
        Error::new(ErrorKind::InvalidOperation, what)
    })
}

/// `raise_exception(message)`: the template refuses these messages.
pub(super) fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}
