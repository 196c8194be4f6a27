//! Bounds the values of chat templates. minijinja counts what a template makes as it makes it: a list of
//! the same list twice costs two places. Sixty such steps make a value that no memory holds once it is
//! printed, compared or joined, and nothing counts that. So every instruction that makes a value out of
//! others, or goes through two whole values, becomes a call of a filter of ours that walks through them
//! first; what is beyond [`LIMIT`] is an error.

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, TemplateConfig};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, Value, context, filters, functions, tests,
};
use std::sync::Arc;

/// Numbers, texts, lists and maps in a value, each as often as it occurs; 64 bytes of text count as one.
const LIMIT: u64 = 1 << 19;

/// Values inside values. One that holds itself has no end, and going through it takes stack.
const DEPTH: u32 = 10_000;

/// Values that cost as much as one instruction to walk through.
const PER_FUEL: u64 = 8;

/// No cached look-up of the filter.
const NO_LOCAL: u8 = u8::MAX;

/// Compiles a template and puts our filters in place of what would go without a bound.
pub(super) fn compile<'s>(
    name: &'s str,
    source: &'s str,
    syntax: &SyntaxConfig,
) -> Result<CompiledTemplate<'s>, Error> {
    let config = TemplateConfig {
        syntax_config: syntax.clone(),
        default_auto_escape: Arc::new(|_| AutoEscape::None),
    };
    let mut compiled = CompiledTemplate::new(name, source, &config)?;
    bind(&mut compiled.instructions)?;
    compiled.blocks.values_mut().try_for_each(bind)?;
    Ok(compiled)
}

fn bind(all: &mut Instructions) -> Result<(), Error> {
    let mut at = 0;
    while let Some(instruction) = all.get_mut(at) {
        let (filter, args) = match instruction {
            Instruction::Add => (".add", 2),
            Instruction::Mul => (".mul", 2),
            Instruction::StringConcat => (".concat", 2),
            Instruction::Eq => (".eq", 2),
            Instruction::Ne => (".ne", 2),
            Instruction::Lt => (".lt", 2),
            Instruction::Lte => (".le", 2),
            Instruction::Gt => (".gt", 2),
            Instruction::Gte => (".ge", 2),
            Instruction::In => (".in", 2),
            Instruction::BuildList(Some(n)) => (".new_list", *n),
            Instruction::BuildTuple(Some(n)) => (".new_tuple", *n),
            Instruction::BuildMap(pairs) => (".new_map", 2 * *pairs),
            _ => ("", 0),
        };
        if args > 0 {
            let n = u16::try_from(args).map_err(|_| {
                let what = "a list or map of more items than a call takes arguments";
                Error::new(ErrorKind::SyntaxError, what)
            })?;
            *instruction = Instruction::ApplyFilter(filter, Some(n), NO_LOCAL);
        }
        at += 1;
    }
    Ok(())
}

/// Adds the filters, and bounds those filters, tests and functions of minijinja's that make values out of
/// others or go through whole ones.
pub(super) fn add(env: &mut Environment) {
    operators(env);
    macro_rules! filters {
        ($($name:literal $f:ident),* $(,)?) => {$(
            env.add_filter(concat!(".", $name), filters::$f);
            env.add_filter($name, |state: &mut State, args: Rest<ValueOrKwargs>| {
                bounded(state, concat!(".", $name), args)
            });
        )*};
    }
    filters!(
        "string" string, "upper" upper, "lower" lower, "title" title, "trim" trim, "join" join,
        "escape" escape, "e" escape, "format" format, "sort" sort,
        "unique" unique, "min" min, "max" max, "batch" batch, "slice" slice, "sum" sum, "map" map,
        "chain" chain, "zip" zip, "replace" replace, "split" split, "lines" lines, "list" list,
    );
    macro_rules! tests {
        ($($name:literal $f:ident),* $(,)?) => {$(
            env.add_test($name, |state: &State, a: Value, b: Value| {
                walk_all(state, &[a.clone(), b.clone()])?;
                Ok::<_, Error>(tests::$f(&a, &b))
            });
        )*};
    }
    tests!(
        "eq" is_eq, "equalto" is_eq, "==" is_eq, "ne" is_ne, "!=" is_ne, "lt" is_lt, "lessthan" is_lt,
        "<" is_lt, "le" is_le, "<=" is_le, "gt" is_gt, "greaterthan" is_gt, ">" is_gt, "ge" is_ge,
        ">=" is_ge,
    );
    env.add_test("in", |state: &State, a: Value, b: Value| {
        walk_all(state, &[a.clone(), b.clone()])?;
        tests::is_in(state, &a, &b)
    });
    env.add_function("dict", |state: &State, of: Option<Value>, named: Kwargs| {
        let made = functions::dict(of, named)?;
        walk_all(state, std::slice::from_ref(&made))?;
        Ok::<_, Error>(made)
    });
    env.add_function("namespace", |state: &State, of: Option<ValueOrKwargs>| {
        let made = functions::namespace(of)?;
        walk_all(state, std::slice::from_ref(&made))?;
        Ok::<_, Error>(made)
    });
}

/// A filter of minijinja's between two walks: through what it gets, and through what it makes.
fn bounded(state: &mut State, name: &str, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
    check(state, &args)?;
    if let (".format", Some(text)) = (name, args.first().and_then(Value::as_str)) {
        ascii_fields(text)?;
    }
    if let Some(text) = args.first().and_then(Value::as_str) {
        match name {
            ".split" => parts(state, text, split_count(text, args.get(1), args.get(2)))?,
            ".lines" => parts(state, text, text.matches('\n').count())?,
            ".list" | ".batch" | ".slice" | ".sort" | ".unique" | ".map" | ".chain" | ".zip"
            | ".join" => parts(state, text, text.chars().count())?,
            _ => {}
        }
    }
    let made = state.apply_filter(name, &args)?;
    check(state, std::slice::from_ref(&made))?;
    Ok(made)
}

/// Pays for a list of parts of a text before it is made; an error if they are too many.
pub(super) fn parts(state: &State, text: &str, count: usize) -> Result<(), Error> {
    if count as u64 > LIMIT {
        let what = "a text that falls into too many parts";
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    state.consume_fuel(count as u64 + text.len() as u64 / 64)
}

/// How many parts `split` and `rsplit` make, or a few more.
pub(super) fn split_count(text: &str, at: Option<&Value>, most: Option<&Value>) -> usize {
    let found = match at.and_then(Value::as_str) {
        Some(at) => text.matches(at).count(),
        None => text.split_whitespace().count(),
    };
    let most = most.and_then(Value::as_usize).unwrap_or(usize::MAX);
    found.min(most).saturating_add(1)
}

/// Refuses printf formats with anything but ASCII inside a field, on which minijinja panics. A field begins
/// with `%` and ends with another, or a letter behind its name in brackets.
fn ascii_fields(text: &str) -> Result<(), Error> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|b| *b == b'%') {
        at += start + 1;
        if bytes.get(at) == Some(&b'%') {
            at += 1;
            continue;
        }
        let mut named = bytes.get(at) == Some(&b'(');
        while let Some(&b) = bytes.get(at) {
            if !b.is_ascii() {
                return Err(not_ascii());
            }
            if named {
                named = b != b')';
            } else if b == b'%' || b.is_ascii_alphabetic() {
                break;
            }
            at += 1;
        }
    }
    Ok(())
}

fn not_ascii() -> Error {
    let what = "format: a field of the text holds other characters than ASCII";
    Error::new(ErrorKind::InvalidOperation, what)
}

/// The widest field that `str.format` makes.
const WIDTH: u64 = 1 << 16;

/// Pays for the text of `str.format` before minijinja makes it, which charges nothing; an error for a field of
/// great width or precision, or one with anything but ASCII, on which minijinja panics. `longest` is that of
/// the arguments, in bytes.
pub(super) fn brace_fields(state: &State, text: &str, longest: usize) -> Result<(), Error> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|b| *b == b'{') {
        at += start + 1;
        if bytes.get(at) == Some(&b'{') {
            at += 1;
            continue;
        }
        let (mut number, mut width) = (0u64, 0u64);
        let (mut key, mut spec) = (false, false);
        while let Some(&b) = bytes.get(at) {
            if !b.is_ascii() {
                return Err(not_ascii());
            }
            number = match b {
                b'0'..=b'9' => number
                    .saturating_mul(10)
                    .saturating_add(u64::from(b - b'0')),
                _ => 0,
            };
            if number > WIDTH {
                let what = "format: a field with a number above 65536";
                return Err(Error::new(ErrorKind::InvalidOperation, what));
            }
            width = width.max(number);
            // A brace may stand in a key, and be what a field is filled with.
            let fill = spec
                && bytes[at - 1] == b':'
                && at + 1 < bytes.len()
                && matches!(bytes[at + 1], b'<' | b'>' | b'^');
            match b {
                _ if key => key = b != b']',
                b'[' if !spec => key = true,
                b':' => spec = true,
                b'}' if !fill => break,
                _ => {}
            }
            at += 1;
        }
        // 512: any number written out. Width and precision may add up.
        let bytes = 2 * width + longest as u64 + 512;
        state.consume_fuel(bytes / 64)?;
    }
    Ok(())
}

/// [`walk_all`] where there is something to walk through.
pub(super) fn check(state: &State, values: &[Value]) -> Result<(), Error> {
    match values.iter().any(|v| v.as_object().is_some()) {
        true => walk_all(state, values),
        false => Ok(()),
    }
}

fn operators(env: &mut Environment) {
    macro_rules! operator {
        ($name:literal, $source:literal) => {
            env.add_filter($name, |state: &State, a: Value, b: Value| {
                operate(state, $source, a, b)
            });
        };
    }
    operator!(".add", "a + b");
    operator!(".mul", "a * b");
    operator!(".concat", "a ~ b");
    operator!(".eq", "a == b");
    operator!(".ne", "a != b");
    operator!(".lt", "a < b");
    operator!(".le", "a <= b");
    operator!(".gt", "a > b");
    operator!(".ge", "a >= b");
    operator!(".in", "a in b");
    env.add_filter(".new_list", |state: &State, items: Rest<Value>| {
        walk_all(state, &items)?;
        Ok::<_, Error>(Value::from(items.0))
    });
    env.add_filter(".new_tuple", |state: &State, items: Rest<Value>| {
        walk_all(state, &items)?;
        Ok::<_, Error>(Value::from(Tuple::from(items.0)))
    });
    env.add_filter(".new_map", |state: &State, items: Rest<Value>| {
        walk_all(state, &items)?;
        let pairs = items.chunks_exact(2).map(|p| (p[0].clone(), p[1].clone()));
        Ok::<_, Error>(Value::from_pairs(pairs))
    });
}

/// An operator as minijinja does it, on operands of bounded size; what it makes is bounded, too.
fn operate(state: &State, source: &'static str, a: Value, b: Value) -> Result<Value, Error> {
    check(state, &[a.clone(), b.clone()])?;
    let plain = |e: Error| {
        // The line is the template's, which the caller knows.
        let what = e.detail().map(str::to_owned);
        match what {
            Some(what) => Error::new(e.kind(), what),
            None => Error::from(e.kind()),
        }
    };
    let expression = state.env().compile_expression(source).map_err(plain)?;
    let made = expression.eval(context! { a, b }).map_err(plain)?;
    state.consume_fuel(made.as_str().map_or(0, |s| s.len() as u64 / 64))?;
    check(state, std::slice::from_ref(&made))?;
    Ok(made)
}

/// Goes through whole values and pays for it; an error if they are too large.
fn walk_all(state: &State, values: &[Value]) -> Result<(), Error> {
    let mut left = LIMIT;
    let fits = values.iter().all(|v| walk(v, &mut left));
    state.consume_fuel((LIMIT - left) / PER_FUEL)?;
    match fits {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InvalidOperation,
            "a value that is too large, or holds itself",
        )),
    }
}

/// Whether a value fits into what is left.
pub(super) fn walk(value: &Value, left: &mut u64) -> bool {
    walk_to(value, left, DEPTH)
}

fn walk_to(value: &Value, left: &mut u64, depth: u32) -> bool {
    let text = value.as_str().map_or(0, |s| s.len() as u64 / 64);
    let (Some(n), Some(depth)) = (left.checked_sub(1 + text), depth.checked_sub(1)) else {
        return false;
    };
    *left = n;
    match value.kind() {
        // What has no length is a stream that would be used up.
        ValueKind::Seq | ValueKind::Iterable if value.len().is_some() => value
            .try_iter()
            .is_ok_and(|mut items| items.all(|v| walk_to(&v, left, depth))),
        ValueKind::Map => value.try_iter().is_ok_and(|mut keys| {
            keys.all(|k| {
                walk_to(&k, left, depth)
                    && (value.get_item(&k)).is_ok_and(|v| walk_to(&v, left, depth))
            })
        }),
        _ => true,
    }
}
