//! A cursor over a file's bytes that checks every length against what is left before using it.

use super::bytes::Bytes;
use super::value::{Array, Place, Value, ValueType};
use crate::{Error, Result};
use std::path::Path;

/// Arrays inside arrays go no deeper than this.
const MAX_DEPTH: u32 = 4;

pub(crate) struct Reader<'a> {
    pub(crate) path: &'a Path,
    file: &'a Bytes,
    pos: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(path: &'a Path, file: &'a Bytes) -> Reader<'a> {
        Reader { path, file, pos: 0 }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    fn left(&self) -> usize {
        self.file.len() - self.pos
    }

    /// The next `n` bytes; `what` names them in the error.
    pub(crate) fn take(&mut self, n: u64, what: &dyn Fn() -> String) -> Result<&'a [u8]> {
        if n > self.left() as u64 {
            return Err(Error::GgufTruncated {
                path: self.path.to_owned(),
                what: what(),
                at: self.pos as u64,
                need: n,
                size: self.file.len() as u64,
            });
        }
        let start = self.pos;
        self.pos += n as usize;
        Ok(&self.file[start..self.pos])
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
    pub(crate) fn count(&mut self, least: usize, what: &dyn Fn() -> String) -> Result<usize> {
        let count = self.u64(what)?;
        if count > (self.left() / least) as u64 {
            let size = self.file.len() as u64;
            return Err(Error::GgufCount {
                path: self.path.to_owned(),
                what: what(),
                count,
                size,
            });
        }
        Ok(count as usize)
    }

    /// A string's bytes.
    pub(crate) fn bytes(&mut self, what: &dyn Fn() -> String) -> Result<&'a [u8]> {
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
        // A string takes at least its length, an array its type and length.
        let least = elem
            .size()
            .unwrap_or(if elem == ValueType::Str { 8 } else { 12 });
        let len = self.count(least, what)?;
        let at = match elem {
            ValueType::Str => {
                let mut starts = Vec::with_capacity(len);
                for _ in 0..len {
                    let text = self.bytes(what)?;
                    starts.push(self.pos - text.len());
                }
                Place::Strings(starts)
            }
            ValueType::Array => {
                let start = self.pos;
                for _ in 0..len {
                    self.array(key, depth - 1, what)?;
                }
                Place::Nested(start..self.pos)
            }
            _ => {
                let start = self.pos;
                self.take((len * least) as u64, what)?;
                Place::Scalars(start)
            }
        };
        Ok(Array::new(elem, len, self.file.clone(), at))
    }
}
