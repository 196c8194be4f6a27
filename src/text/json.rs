//! JSON as Python's `json.dumps` writes it: models were trained on that text, to the last space.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use std::fmt::Write;

/// The `tojson` filter of transformers: `json.dumps` with `ensure_ascii`, `indent` (these two also
/// by place), `separators` and `sort_keys`; nothing is escaped for HTML.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    ascii: Option<Value>,
    indent: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    let arg = |name: &str, by_place: Option<Value>| -> Result<Value, Error> {
        let by_name: Option<Value> = named.get(name)?;
        Ok(by_name.or(by_place).unwrap_or_default())
    };
    let ascii = arg("ensure_ascii", ascii)?.is_true();
    let indent = arg("indent", indent)?;
    let indent = match (indent.as_str(), indent.as_usize()) {
        _ if indent.is_none() || indent.is_undefined() => None,
        (Some(text), _) => Some(text.to_owned()),
        (_, Some(n)) if n <= 64 => Some(" ".repeat(n)),
        _ => {
            return Err(fault(
                "tojson: indent is neither a small number nor a string",
            ));
        }
    };
    let separators = arg("separators", None)?;
    let (item, key) = if separators.is_none() || separators.is_undefined() {
        let item = if indent.is_some() { "," } else { ", " };
        (item.to_owned(), ": ".to_owned())
    } else {
        let texts: Vec<Value> = separators.try_iter()?.take(3).collect();
        let texts: Vec<_> = texts.iter().map(Value::as_str).collect();
        match texts[..] {
            [Some(item), Some(key)] => (item.to_owned(), key.to_owned()),
            _ => return Err(fault("tojson: separators are not two strings")),
        }
    };
    let sort = arg("sort_keys", None)?.is_true();
    named.assert_all_used()?;
    let mut dump = Dump {
        state,
        ascii,
        indent,
        item,
        key,
        sort,
        depth: 0,
        out: String::new(),
    };
    dump.value(value)?;
    Ok(Value::from(dump.out))
}

fn fault(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// Bytes of JSON that one call may make.
const BYTES: usize = 32 << 20;

struct Dump<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
    depth: usize,
    out: String,
}

impl Dump<'_, '_, '_> {
    /// Pays for text before it is written: separators and indents make much out of little.
    fn pay(&self, bytes: usize) -> Result<(), Error> {
        if bytes > BYTES - self.out.len().min(BYTES) {
            return Err(fault("tojson: more than 32 MiB of text"));
        }
        self.state.consume_fuel(bytes as u64 / 64)
    }

    fn value(&mut self, value: &Value) -> Result<(), Error> {
        self.state.consume_fuel(1)?; // a value that holds another many times grows fast
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self
                .out
                .push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => {
                let _ = write!(self.out, "{value}");
            }
            ValueKind::Number => {
                let number = f64::try_from(value.clone())?;
                self.out.push_str(&match number {
                    n if n.is_nan() => "NaN".into(),
                    f64::INFINITY => "Infinity".into(),
                    f64::NEG_INFINITY => "-Infinity".into(),
                    n => float(n),
                });
            }
            ValueKind::String => self.string(value.as_str().unwrap_or_default())?,
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.block('[', ']', items, |dump, item| dump.value(item))?;
            }
            ValueKind::Map => {
                let mut pairs = Vec::new();
                for key in value.try_iter()? {
                    pairs.push((key_text(&key)?, value.get_item(&key)?));
                }
                if self.sort {
                    pairs.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.block('{', '}', pairs, |dump, (key, value)| {
                    dump.string(key)?;
                    dump.pay(dump.key.len())?;
                    dump.out.push_str(&dump.key);
                    dump.value(value)
                })?;
            }
            kind => {
                let what = format!("tojson: a value of type {kind} is not JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
        }
        Ok(())
    }

    /// A list or map: what is in it, separated and indented.
    fn block<T>(
        &mut self,
        open: char,
        close: char,
        items: Vec<T>,
        mut write: impl FnMut(&mut Self, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > 500 {
            return Err(fault("tojson: nested too deep"));
        }
        self.out.push(open);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.pay(self.item.len())?;
                self.out.push_str(&self.item);
            }
            self.line(self.depth)?;
            write(self, item)?;
        }
        self.depth -= 1;
        if !items.is_empty() {
            self.line(self.depth)?;
        }
        self.out.push(close);
        Ok(())
    }

    fn line(&mut self, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            self.pay(indent.len().saturating_mul(depth))?;
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        // An escape is at most 8 bytes longer than its character.
        let escaped = |c: &char| *c < ' ' || matches!(c, '"' | '\\') || self.ascii && !c.is_ascii();
        let escapes = text.chars().filter(escaped).count();
        self.pay(text.len().saturating_add(8 * escapes))?;
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
        Ok(())
    }
}

/// A key as Python writes it.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.to_string(),
        ValueKind::None => "null".into(),
        ValueKind::Bool => key.to_string().to_lowercase(),
        ValueKind::Number if key.is_integer() => key.to_string(),
        ValueKind::Number => float(f64::try_from(key.clone())?),
        _ => return Err(fault("tojson: a key is neither a string nor a number")),
    })
}

/// A float as Python's `repr` writes it: the shortest digits that read back as the same number,
/// with an exponent below 1e-4 and from 1e16.
pub(super) fn float(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("a number written with {:e}");
    match exponent.parse::<i32>().expect("an exponent is a number") {
        -4..16 => format!("{number:?}"),
        exponent => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}
