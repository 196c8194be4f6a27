//! Progress bars on standard error: hidden with `-q` and when it is no terminal.

use super::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use tokstep::{Result, Session};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Hides every bar from now on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// True with `-q`.
pub fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// A bar that counts bytes.
pub fn bytes(what: &str, total: u64) -> ProgressBar {
    bar(
        what,
        total,
        "{msg:12} {bar:30} {bytes:>10} of {total_bytes} {bytes_per_sec:>12} {eta:>4}",
    )
}

/// A bar that counts things.
pub fn count(what: &str, total: u64) -> ProgressBar {
    bar(what, total, "{msg:12} {bar:30} {pos} of {len}")
}

/// A sign that something goes on whose length is not known.
pub fn spinner(what: &str) -> ProgressBar {
    let bar = bar(what, 1, "{msg:12} {spinner} {elapsed}");
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

/// Appends a prompt to a session under a bar; false if Ctrl-C came before all of it was fed.
pub fn prefill(session: &mut Session, ids: &[u32]) -> Result<bool> {
    let bar = count("prompt", ids.len() as u64);
    let done = session.prefill_while(ids, &|fed| {
        bar.set_position(fed as u64);
        !interrupt::pressed()
    });
    bar.finish_and_clear();
    done
}

fn bar(what: &str, total: u64, template: &str) -> ProgressBar {
    let target = match quiet() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(), // draws nothing unless it is a terminal
    };
    let style = ProgressStyle::with_template(template).expect("a constant template");
    ProgressBar::with_draw_target(Some(total), target)
        .with_style(style)
        .with_message(what.to_owned())
}
