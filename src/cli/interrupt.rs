//! Ctrl-C: the first one ends the answer (or the test that runs), a second one ends the program.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Exit code of what was interrupted: 128 + SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

static PRESSED: AtomicU32 = AtomicU32::new(0);

/// From here on the first Ctrl-C only raises the flag. Before the first call (while a model is
/// fetched or loaded) Ctrl-C ends the program, as usual.
pub fn arm() {
    static INSTALL: Once = Once::new();
    PRESSED.store(0, Ordering::SeqCst);
    INSTALL.call_once(|| {
        let handler = || {
            if PRESSED.fetch_add(1, Ordering::SeqCst) > 0 {
                std::process::exit(INTERRUPTED.into());
            }
        };
        if let Err(e) = ctrlc::set_handler(handler) {
            tracing::warn!("Ctrl-C will end the program and not only the answer: {e}");
        }
    });
}

/// True once Ctrl-C was pressed since [`arm`].
pub fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}
