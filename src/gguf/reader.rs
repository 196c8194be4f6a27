//! A cursor over a file's bytes that checks every length against what is left before using it. It
//! reads ahead a little at a time, so what is held is what was asked for, and not the file.

use super::bytes::Bytes;
use super::value::{Array, Value, ValueType};
use crate::{Error, Result};
use std::io;
use std::path::Path;

/// Arrays inside arrays go no deeper than this.
const MAX_DEPTH: u32 = 4;
/// Bytes that are read at a time.
const AHEAD: u64 = 256 << 10;
/// Bytes a header may have. The largest vocabularies take 20 MB; what is longer is no header, and
/// would be held in memory.
const MAX_HEADER: u64 = 128 << 20;

pub(crate) struct Reader<'a> {
    pub(crate) path: &'a Path,
    file: &'a Bytes,
    /// Bytes of the file.
    size: u64,
    pos: u64,
    /// Bytes of the file from `start` on.
    held: Vec<u8>,
    start: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(path: &'a Path, file: &'a Bytes) -> Reader<'a> {
        Reader {
            path,
            file,
            size: file.len(),
            pos: 0,
            held: Vec::new(),
            start: 0,
        }
    }

    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    fn left(&self) -> u64 {
        self.size - self.pos
    }

    /// The next `n` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, n: u64, what: &dyn Fn() -> String) -> Result<&[u8]> {
        if n > self.left() {
            return Err(Error::GgufTruncated {
                path: self.path.to_owned(),
                what: what(),
                at: self.pos,
                need: n,
                size: self.size,
            });
        }
        if self.pos + n > MAX_HEADER {
            return Err(Error::GgufHeaderLong {
                path: self.path.to_owned(),
                what: what(),
                limit: MAX_HEADER,
            });
        }
        let end = self.start + self.held.len() as u64;
        if self.pos + n > end {
            self.start = self.pos;
            self.held.resize(n.max(AHEAD).min(self.left()) as usize, 0);
            let read = self.file.read_at(self.pos, &mut self.held);
            read.map_err(|e| self.failed(e, what))?;
        }
        let at = (self.pos - self.start) as usize;
        self.pos += n;
        Ok(&self.held[at..at + n as usize])
    }

    /// The next `n` bytes, which stay the next ones.
    pub(crate) fn look(&mut self, n: u64) -> Result<&[u8]> {
        let bytes = self.take(n, &|| "the first bytes".into())?.len();
        self.pos -= n;
        let at = (self.pos - self.start) as usize;
        Ok(&self.held[at..at + bytes])
    }

    fn failed(&self, source: io::Error, what: &dyn Fn() -> String) -> Error {
        let path = self.path.to_owned();
        match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::FileShrank {
                path,
                what: what(),
                size: self.size,
                now: self.file.len_now(),
            },
            _ => Error::Io { path, source },
        }
    }

    pub(crate) fn u32(&mut self, what: &dyn Fn() -> String) -> Result<u32> {
        Ok(u32::from_le_bytes(
            self.take(4, what)?.try_into().expect("four bytes"),
        ))
    }

    pub(crate) fn u64(&mut self, what: &dyn Fn() -> String) -> Result<u64> {
        Ok(u64::from_le_bytes(
            self.take(8, what)?.try_into().expect("eight bytes"),
        ))
    }

    /// A count of things that take at least `least` bytes each: refused when the rest of the file
    /// cannot hold them, so nothing is ever reserved for a lying count.
    pub(crate) fn count(&mut self, least: u64, what: &dyn Fn() -> String) -> Result<usize> {
        let count = self.u64(what)?;
        // What is left may be tensors; a header has an end of its own.
        let left = self.left().min(MAX_HEADER);
        if count > left / least {
            return Err(Error::GgufCount {
                path: self.path.to_owned(),
                what: what(),
                count,
                size: self.size,
            });
        }
        Ok(count as usize)
    }

    /// A string's bytes.
    pub(crate) fn bytes(&mut self, what: &dyn Fn() -> String) -> Result<&[u8]> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    fn value_type(&mut self, key: &str, what: &dyn Fn() -> String) -> Result<ValueType> {
        let id = self.u32(what)?;
        let unknown = || Error::GgufValueType {
            path: self.path.to_owned(),
            key: key.into(),
            id,
        };
        ValueType::from_id(id).ok_or_else(unknown)
    }

    /// The type and value of a key.
    pub(crate) fn value(&mut self, key: &str) -> Result<Value> {
        let what = || format!("the value of {key}");
        let ty = self.value_type(key, &what)?;
        match ty {
            ValueType::Str => Ok(Value::Str(self.bytes(&what)?.to_vec())),
            ValueType::Array => Ok(Value::Array(self.array(key, MAX_DEPTH, &what)?)),
            _ => {
                let size = ty.size().expect("a scalar");
                Ok(Value::scalar(ty, self.take(size as u64, &what)?))
            }
        }
    }

    fn array(&mut self, key: &str, depth: u32, what: &dyn Fn() -> String) -> Result<Array> {
        if depth == 0 {
            return Err(Error::GgufNesting {
                path: self.path.to_owned(),
                key: key.into(),
                limit: MAX_DEPTH,
            });
        }
        let elem = self.value_type(key, what)?;
        match elem.size() {
            Some(size) => {
                let len = self.count(size as u64, what)?;
                let bytes = self.take((len * size) as u64, what)?.to_vec();
                Ok(Array::of_scalars(elem, len, bytes))
            }
            // A string takes at least its length.
            None if elem == ValueType::Str => {
                let len = self.count(8, what)?;
                let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(len));
                for _ in 0..len {
                    text.extend_from_slice(self.bytes(what)?);
                    ends.push(text.len() as u32); // a header is shorter than that
                }
                Ok(Array::of_texts(text, ends))
            }
            // An array takes at least its type and length.
            None => {
                let len = self.count(12, what)?;
                let mut raw = Vec::new();
                for _ in 0..len {
                    self.array(key, depth - 1, what)?.write(&mut raw);
                }
                Ok(Array::of_arrays(len, raw))
            }
        }
    }
}
