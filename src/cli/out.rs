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
    let _ = writeln!(io::stderr(), "{line}");
}
