//! The `tokstep` binary: words in, exit codes out. Everything it can do is in the library.

mod cli;

use clap::Parser;
use cli::{Cli, interrupt, out};
use std::io::{self, ErrorKind};
use std::process::ExitCode;
use tokstep::Error;

fn main() -> ExitCode {
    silence_device_select();
    let cli = Cli::parse(); // a usage error ends here, with 2
    cli::log(&cli.log);
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        // `tokstep ... | head`: whoever read our output has had enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            out::say(format_args!("error: {e}"));
            match e {
                Error::Interrupted { .. } => ExitCode::from(interrupt::INTERRUPTED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn is_broken_pipe(e: &Error) -> bool {
    let pipe = |e: &io::Error| e.kind() == ErrorKind::BrokenPipe;
    matches!(e, Error::Io { source, .. } if pipe(source))
}

/// Mesa's device-select layer asks the desktop session for its favourite GPU and, where there is
/// no session (a container, ssh), writes an error of its own to standard error. We pick devices
/// ourselves, so there the layer is turned off.
#[allow(unsafe_code)]
fn silence_device_select() {
    if cfg!(target_os = "linux") && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: called first in `main`, while no other thread exists that could read the
        // environment.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}
