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
