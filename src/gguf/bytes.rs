//! The bytes of one file: memory-mapped, or owned when they came from memory.

use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// Shared, read-only bytes; cloning copies a pointer.
#[derive(Clone)]
pub(crate) struct Bytes(Arc<Storage>);

enum Storage {
    Map(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    pub(crate) fn open(path: &Path) -> Result<Bytes> {
        let fail = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        let kind = fs::metadata(path).map_err(fail)?;
        // A directory cannot be mapped and opening a named pipe would wait for a writer.
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
        if kind.len() == 0 {
            return Ok(Bytes::from(Vec::new())); // some systems refuse an empty mapping
        }
        // SAFETY: the mapping is private and only read as plain bytes, for which every bit pattern
        // is valid. Another process that shortens the file while it is mapped makes a read fault;
        // that is the known limit of memory-mapped models.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::MmapOptions::new().map(&file) }.map_err(fail)?;
        Ok(Bytes(Arc::new(Storage::Map(map))))
    }
}

impl Bytes {
    /// Tells the system that a part will not be read soon, so that it no longer counts as this
    /// process's memory. Reading it again brings it back. A hint: where it is not heard, nothing is lost.
    pub(crate) fn release(&self, part: std::ops::Range<usize>) {
        #[cfg(unix)]
        if let Storage::Map(map) = &*self.0 {
            let len = part.end.min(map.len()).saturating_sub(part.start);
            // SAFETY: the pages are read-only and backed by the file, never written: dropping them
            // loses nothing, and whoever still holds a slice of them reads the same bytes again.
            #[allow(unsafe_code)]
            let told = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, part.start, len)
            };
            if let Err(e) = told {
                tracing::debug!("pages of a model file are not given back: {e}");
            }
        }
        #[cfg(not(unix))]
        let _ = part;
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::new(Storage::Owned(bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Storage::Map(map) => map,
            Storage::Owned(vec) => vec,
        }
    }
}
