//! Writing to standard output and standard error, where a reader that left is not a crash.

use std::fmt::{Arguments, Display};
use std::io::{self, Write};
use tokstep::{Error, Result};

/// Writes to standard output and flushes it, so that streamed text is seen at once.
pub fn text(text: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|source| Error::Io {
            path: "standard output".into(),
            source,
        })
}

/// [`text`] and a line end.
pub fn line(line: impl Display) -> Result<()> {
    text(format_args!("{line}\n"))
}

/// A line for the user on standard error. If that is closed there is nobody to tell.
pub fn say(line: Arguments) {
    let _ = writeln!(io::stderr(), "{}", clean(&line.to_string()));
}

/// Text with its control characters written out, line ends and tabs apart: names in a file could
/// hold terminal commands.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => clean.push(c),
            c if c.is_control() => clean.extend(c.escape_default()),
            c => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            super::clean("a\x1b[2J\u{9b}\tb\né"),
            "a\\u{1b}[2J\\u{9b}\tb\né"
        );
    }
}
