//! The model cache: where it is, whether a file in it is the right one, and the stamp that saves
//! hashing it again.

use super::Known;
use crate::{Error, Result};
use etcetera::BaseStrategy;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// `$TOKSTEP_CACHE`, else `tokstep/models` in the user's cache folder. Not created here.
///
/// # Errors
/// [`Error::NoCacheDir`] when there is no home folder.
pub fn cache_dir() -> Result<PathBuf> {
    dir("models", "")
}

/// Where compiled pipelines are kept: `pipelines` in `$TOKSTEP_CACHE`, else `tokstep/pipelines` in the
/// user's cache folder. Not created here.
///
/// # Errors
/// [`Error::NoCacheDir`] when there is no home folder.
pub fn pipelines_dir() -> Result<PathBuf> {
    dir("pipelines", "pipelines")
}

/// Where what tuning found is kept: `tuning` in `$TOKSTEP_CACHE`, else `tokstep/tuning` in the user's
/// cache folder. Not created here.
///
/// # Errors
/// [`Error::NoCacheDir`] when there is no home folder.
pub fn tuning_dir() -> Result<PathBuf> {
    dir("tuning", "tuning")
}

/// Where is kept which kernel variants are right on which device: `proofs` in `$TOKSTEP_CACHE`, else
/// `tokstep/proofs` in the user's cache folder. Not created here.
///
/// # Errors
/// [`Error::NoCacheDir`] when there is no home folder.
pub fn proofs_dir() -> Result<PathBuf> {
    dir("proofs", "proofs")
}

/// A folder of ours in the user's cache, or one in the folder that the user named for all.
fn dir(ours: &str, named: &str) -> Result<PathBuf> {
    match std::env::var_os("TOKSTEP_CACHE") {
        Some(dir) if !dir.is_empty() => Ok(PathBuf::from(dir).join(named)),
        _ => etcetera::choose_base_strategy()
            .map(|base| base.cache_dir().join("tokstep").join(ours))
            .map_err(|_| Error::NoCacheDir),
    }
}

/// The verified file, or why there is none. A file that is not the model is deleted.
pub(super) fn look_up(known: &Known, dir: &Path) -> Result<Result<PathBuf, String>> {
    let path = dir.join(known.file);
    if !path.is_file() {
        return Ok(Err("not there yet".into()));
    }
    let stamp = stamp(known, &path).map_err(io_error(&path))?;
    if fs::read_to_string(stamp_path(&path)).is_ok_and(|old| old == stamp) {
        return Ok(Ok(path));
    }
    match check(known, &path).map_err(io_error(&path))? {
        Ok(()) => {
            // Without the stamp (a read-only cache) the next start only hashes again.
            let _ = fs::write(stamp_path(&path), stamp);
            Ok(Ok(path))
        }
        Err(why) => {
            fs::remove_file(&path).map_err(io_error(&path))?;
            Ok(Err(format!("{why}; deleted it")))
        }
    }
}

/// Moves a finished download to its final name if, and only if, it is the model; deletes it else.
pub(super) fn admit(known: &Known, part: &Path, dir: &Path) -> Result<PathBuf, String> {
    let text = |e: io::Error| format!("{}: {e}", part.display());
    if let Err(why) = check(known, part).map_err(text)? {
        fs::remove_file(part).map_err(text)?;
        return Err(format!("{why}; deleted what was fetched"));
    }
    let path = dir.join(known.file);
    File::open(part).and_then(|f| f.sync_all()).map_err(text)?;
    fs::rename(part, &path).map_err(text)?;
    #[cfg(unix)] // a rename is durable once its folder is
    File::open(dir).and_then(|d| d.sync_all()).map_err(text)?;
    let _ = stamp(known, &path).and_then(|s| fs::write(stamp_path(&path), s));
    Ok(path)
}

/// Size first, since it is free, then SHA-256. The inner error is the sentence for the user.
fn check(known: &Known, path: &Path) -> io::Result<Result<(), String>> {
    let bytes = fs::metadata(path)?.len();
    if bytes != known.bytes {
        return Ok(Err(format!(
            "wrong size: expected {} bytes, found {bytes}",
            known.bytes
        )));
    }
    let found = sha256(path, &mut |_| ())?;
    if found != known.sha256 {
        return Ok(Err(format!(
            "wrong checksum: expected sha256 {}, found {found}",
            known.sha256
        )));
    }
    Ok(Ok(()))
}

/// SHA-256 of a file, lower-case hex; `read` is told the bytes of each piece.
///
/// # Errors
/// What reading the file gave.
pub fn sha256(path: &Path, read: &mut dyn FnMut(u64)) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => {
                hash.update(&buffer[..n]);
                read(n as u64);
            }
        }
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

fn stamp_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".sha256ok");
    name.into()
}

/// What must be unchanged for an old verdict to hold: hash asked for, size, time of last change.
fn stamp(known: &Known, path: &Path) -> io::Result<String> {
    let meta = fs::metadata(path)?;
    let mtime = meta.modified()?.duration_since(UNIX_EPOCH);
    Ok(format!(
        "{} {} {}\n",
        known.sha256,
        meta.len(),
        mtime.map_or(0, |t| t.as_nanos())
    ))
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}
