//! The bytes of one file, read piece by piece where they lie, or owned when they came from memory.
//! Nothing is mapped: a file that another program shortens gives an error, where a mapping would end
//! the process.

use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Shared, read-only bytes; cloning copies a pointer.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<Storage>);

enum Storage {
    /// A file and the bytes it had when it was opened.
    File(File, u64),
    Owned(Vec<u8>),
}

impl Bytes {
    pub(crate) fn open(path: &Path) -> Result<Bytes> {
        let fail = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        // Opening a named pipe would wait for a writer, so what it is comes first.
        let kind = fs::metadata(path).map_err(fail)?;
        if kind.is_dir() {
            return Err(fail(io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            return Err(fail(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            )));
        }
        let file = File::open(path).map_err(fail)?;
        let len = file.metadata().map_err(fail)?.len();
        Ok(Bytes(Arc::new(Storage::File(file, len))))
    }

    /// Bytes there were when the file was opened.
    pub(crate) fn len(&self) -> u64 {
        match &*self.0 {
            Storage::File(_, len) => *len,
            Storage::Owned(v) => v.len() as u64,
        }
    }

    /// Bytes there are now.
    pub(crate) fn len_now(&self) -> u64 {
        match &*self.0 {
            Storage::File(file, len) => file.metadata().map_or(*len, |m| m.len()),
            Storage::Owned(v) => v.len() as u64,
        }
    }

    /// Fills `out` with the bytes from `at` on; an end of the file before that is an error.
    pub(crate) fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.0 {
            Storage::File(file, _) => read_exact_at(file, at, out),
            Storage::Owned(v) => {
                let here = usize::try_from(at)
                    .ok()
                    .and_then(|at| v.get(at..)?.get(..out.len()));
                out.copy_from_slice(here.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, at: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut at: u64, mut out: &mut [u8]) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                at += n as u64;
                out = &mut out[n..];
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::new(Storage::Owned(bytes)))
    }
}
