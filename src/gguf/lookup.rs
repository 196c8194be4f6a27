//! Typed look-up of metadata: a key that is absent is `None`, one of another type is an error.

use super::{Gguf, Value};
use crate::{Error, Result};

impl Gguf {
    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match convert(value) {
            Some(v) => Ok(Some(v)),
            None => Err(Error::KeyType {
                path: self.path().to_owned(),
                key: key.into(),
                wanted,
                found: match value.as_int() {
                    Some(v) => format!("{v} ({})", value.ty().name()),
                    None => value.ty().name().into(),
                },
            }),
        }
    }

    fn array<T>(
        &self,
        key: &str,
        wanted: &'static str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        self.typed(key, wanted, |v| {
            v.as_array()?.scalars()?.map(|v| convert(&v)).collect()
        })
    }

    fn need<T>(&self, key: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| Error::KeyMissing {
            path: self.path().to_owned(),
            key: key.into(),
        })
    }

    /// Any integer that fits 32 bits without a sign.
    pub fn u32(&self, key: &str) -> Result<Option<u32>> {
        self.typed(key, "an unsigned 32-bit number", Value::as_u32)
    }

    /// Any integer that fits 64 bits without a sign.
    pub fn u64(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "an unsigned number", Value::as_u64)
    }

    /// A float of either width.
    pub fn f32(&self, key: &str) -> Result<Option<f32>> {
        self.typed(key, "a float", Value::as_f32)
    }

    /// A bool.
    pub fn bool(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a bool", Value::as_bool)
    }

    /// A string, which must be UTF-8. For one that is only shown see [`Value::as_str_lossy`].
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a UTF-8 string", |v| {
            str::from_utf8(v.as_bytes()?).ok()
        })
    }

    /// An array of integers, each of which fits 32 bits without a sign.
    pub fn u32s(&self, key: &str) -> Result<Option<Vec<u32>>> {
        self.array(key, "an array of unsigned 32-bit numbers", Value::as_u32)
    }

    /// An array of floats.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>> {
        self.array(key, "an array of floats", Value::as_f32)
    }

    /// An array of bools.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>> {
        self.array(key, "an array of bools", Value::as_bool)
    }

    /// An array of strings, as bytes: tokens need not be UTF-8.
    pub fn strs(&self, key: &str) -> Result<Option<Vec<&[u8]>>> {
        self.typed(key, "an array of strings", |v| {
            Some(v.as_array()?.strs()?.collect())
        })
    }

    /// [`Gguf::u32`] of a key that must be there.
    pub fn need_u32(&self, key: &str) -> Result<u32> {
        self.need(key, self.u32(key)?)
    }

    /// [`Gguf::f32`] of a key that must be there.
    pub fn need_f32(&self, key: &str) -> Result<f32> {
        self.need(key, self.f32(key)?)
    }

    /// [`Gguf::str`] of a key that must be there.
    pub fn need_str(&self, key: &str) -> Result<&str> {
        self.need(key, self.str(key)?)
    }
}
