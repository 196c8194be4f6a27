//! GGUF files: metadata, and tensors that are read where they lie, with every count and offset checked
//! before it is used. Knows files, not models: which keys and tensors matter is the business of others.

mod bytes;
pub mod ggml_type;
mod header;
mod lookup;
mod reader;
mod split;
mod value;
mod write;

pub use ggml_type::GgmlType;
pub use header::TensorInfo;
pub use split::files as split_files;
pub use value::{Array, Value, ValueType};
pub use write::{NewTensor, header};

use crate::{Error, Result};
use bytes::Bytes;
use header::Header;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened model file (all parts of it, when split). Cloning copies a pointer.
#[derive(Clone)]
pub struct Gguf(Arc<Inner>);

struct Inner {
    path: PathBuf,
    version: u32,
    alignment: u64,
    meta: Vec<(String, Value)>,
    keys: HashMap<String, usize>,
    tensors: Vec<TensorInfo>,
    names: HashMap<String, usize>,
    files: Vec<Bytes>,
    /// Bytes of all files, or that a file would have.
    bytes: u64,
}

impl Gguf {
    /// Opens a file, and the other parts of a split model when it is the first part of one.
    pub fn open(path: &Path) -> Result<Gguf> {
        Gguf::read(path, Bytes::open(path)?)
    }

    /// Reads a file from memory; `name` stands for its path in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Gguf> {
        Gguf::read(Path::new(name), bytes.into())
    }

    fn read(path: &Path, bytes: Bytes) -> Result<Gguf> {
        let mut first = Header::read(path, &bytes, 0, bytes.len())?;
        let rest = split::rest(path, &first)?;
        let mut files = vec![bytes];
        for (bytes, header) in rest {
            files.push(bytes);
            first.tensors.extend(header.tensors);
        }
        let bytes = files.iter().map(Bytes::len).sum();
        Gguf::new(path, first, files, bytes)
    }

    /// A model of which only the header exists, as [`header`] writes it. The data of each tensor is
    /// the rows of `pool` that `place` says (a range of bytes), again and again until the tensor is
    /// full. `name` stands for the path.
    pub fn repeating(
        name: &str,
        header: Vec<u8>,
        pool: Vec<u8>,
        place: impl Fn(&TensorInfo) -> Range<usize>,
    ) -> Result<Gguf> {
        let (path, file) = (Path::new(name), Bytes::from(header));
        let mut header = Header::read(path, &file, 0, u64::MAX)?;
        for t in &mut header.tensors {
            let range = place(t);
            assert!(range.end <= pool.len(), "{}: {range:?}", t.name);
            (t.part, t.start) = (1, range.start as u64);
            t.held = (range.len() as u64).min(t.bytes);
            let rows = t.held / t.row_bytes();
            assert!(rows > 0 && rows * t.row_bytes() == t.held, "{}", t.name);
        }
        let bytes = header.end;
        Gguf::new(path, header, vec![file, pool.into()], bytes)
    }

    fn new(path: &Path, first: Header, files: Vec<Bytes>, bytes: u64) -> Result<Gguf> {
        let tensors = first.tensors;
        let mut names = HashMap::new();
        for (i, t) in tensors.iter().enumerate() {
            if names.insert(t.name.clone(), i).is_some() {
                return Err(Error::TensorTwice {
                    path: path.to_owned(),
                    name: t.name.clone(),
                });
            }
        }
        let keys = first
            .meta
            .iter()
            .enumerate()
            .map(|(i, (key, _))| (key.clone(), i))
            .collect();
        let gguf = Gguf(Arc::new(Inner {
            path: path.to_owned(),
            version: first.version,
            alignment: first.alignment,
            meta: first.meta,
            keys,
            tensors,
            names,
            files,
            bytes,
        }));
        let found = gguf.tensors().len() as u64;
        match gguf.u64("split.tensors.count")? {
            Some(wanted) if wanted != found => Err(Error::SplitTensors {
                path: path.to_owned(),
                wanted,
                found,
            }),
            _ => Ok(gguf),
        }
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Version of the format, 2 or 3.
    pub fn version(&self) -> u32 {
        self.0.version
    }

    /// Bytes to which tensor data is aligned in the file.
    pub fn alignment(&self) -> u64 {
        self.0.alignment
    }

    /// Bytes of all parts.
    pub fn file_bytes(&self) -> u64 {
        self.0.bytes
    }

    /// All metadata, in file order (of the first part).
    pub fn meta(&self) -> &[(String, Value)] {
        &self.0.meta
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.keys.get(key).map(|&i| &self.0.meta[i].1)
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.0.tensors
    }

    /// The tensor of this name.
    pub fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.0.names.get(name).map(|&i| &self.0.tensors[i])
    }

    /// The tensor of this name, which must have this shape (GGUF order: weights per row first).
    /// Trailing dimensions of 1 do not count.
    pub fn tensor(&self, name: &str, shape: &[u64]) -> Result<&TensorInfo> {
        let path = || self.path().to_owned();
        let missing = || Error::TensorMissing {
            path: path(),
            name: name.into(),
        };
        let info = self.find(name).ok_or_else(missing)?;
        let trim = |s: &[u64]| s.iter().rposition(|&d| d != 1).map_or(0, |i| i + 1);
        if info.shape[..trim(&info.shape)] != shape[..trim(shape)] {
            let (wanted, found) = (shape.to_vec(), info.shape.clone());
            return Err(Error::TensorShape {
                path: path(),
                name: name.into(),
                wanted,
                found,
            });
        }
        Ok(info)
    }

    /// The blocks of one of this file's tensors; of one whose rows repeat, the first
    /// [`TensorInfo::period`] rows.
    pub fn data(&self, t: &TensorInfo) -> Result<Vec<u8>> {
        let mut out = vec![0; t.held as usize];
        self.read_at(t, 0, &mut out)?;
        Ok(out)
    }

    /// Replaces `out` with the blocks of rows `rows` of one of this file's tensors.
    pub fn rows(&self, t: &TensorInfo, rows: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let row = t.row_bytes() as usize;
        out.resize(rows.len() * row, 0);
        let Some(period) = t.period() else {
            return self.read_at(t, (rows.start * row) as u64, out);
        };
        let (mut r, mut at) = (rows.start, 0);
        while r < rows.end {
            let from = r % period;
            let n = (period - from).min(rows.end - r);
            self.read_at(t, (from * row) as u64, &mut out[at..at + n * row])?;
            (r, at) = (r + n, at + n * row);
        }
        Ok(())
    }

    fn read_at(&self, t: &TensorInfo, at: u64, out: &mut [u8]) -> Result<()> {
        assert!(
            at + out.len() as u64 <= t.held,
            "past the end of {}",
            t.name
        );
        let file = &self.0.files[t.part];
        file.read_at(t.start + at, out).map_err(|source| {
            let part = split::files(self.path()).into_iter().nth(t.part);
            let path = part.unwrap_or_else(|| self.path().to_owned());
            match source.kind() {
                std::io::ErrorKind::UnexpectedEof => Error::FileShrank {
                    path,
                    what: format!("tensor {}", t.name),
                    size: file.len(),
                    now: file.len_now(),
                },
                _ => Error::Io { path, source },
            }
        })
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "Gguf({}, {} tensors)",
            self.path().display(),
            self.tensors().len()
        )
    }
}
