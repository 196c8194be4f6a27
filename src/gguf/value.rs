//! Metadata values. Scalars and strings are decoded when the file is opened; arrays stay in the
//! file and are decoded on use, so a list of 262144 tokens costs one offset per token.

use super::bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Type of a metadata value (source: GGUF's `gguf_metadata_value_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Str,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    const ALL: [ValueType; 13] = {
        use ValueType::*;
        [
            U8, I8, U16, I16, U32, I32, F32, Bool, Str, Array, U64, I64, F64,
        ]
    };

    /// Number of the type in a file.
    pub(crate) fn id(self) -> u32 {
        self as u32
    }

    /// The type with this number in a file.
    pub(crate) fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(id as usize).copied()
    }

    /// Bytes of a scalar; `None` for strings and arrays, which carry their own length.
    pub(crate) fn size(self) -> Option<usize> {
        use ValueType::*;
        match self {
            U8 | I8 | Bool => Some(1),
            U16 | I16 => Some(2),
            U32 | I32 | F32 => Some(4),
            U64 | I64 | F64 => Some(8),
            Str | Array => None,
        }
    }

    /// Name as the GGUF description writes it.
    pub fn name(self) -> &'static str {
        use ValueType::*;
        match self {
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            U32 => "u32",
            I32 => "i32",
            F32 => "f32",
            Bool => "bool",
            Str => "string",
            Array => "array",
            U64 => "u64",
            I64 => "i64",
            F64 => "f64",
        }
    }
}

/// One metadata value.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// Raw bytes: files exist whose strings are not UTF-8.
    Str(Vec<u8>),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// Decodes a scalar from exactly `ty.size()` little-endian bytes.
    pub(crate) fn scalar(ty: ValueType, b: &[u8]) -> Value {
        macro_rules! le {
            ($t:ty) => {
                <$t>::from_le_bytes(b.try_into().expect("a scalar of its own size"))
            };
        }
        match ty {
            ValueType::U8 => Value::U8(le!(u8)),
            ValueType::I8 => Value::I8(le!(i8)),
            ValueType::U16 => Value::U16(le!(u16)),
            ValueType::I16 => Value::I16(le!(i16)),
            ValueType::U32 => Value::U32(le!(u32)),
            ValueType::I32 => Value::I32(le!(i32)),
            ValueType::F32 => Value::F32(le!(f32)),
            ValueType::Bool => Value::Bool(b[0] != 0),
            ValueType::U64 => Value::U64(le!(u64)),
            ValueType::I64 => Value::I64(le!(i64)),
            ValueType::F64 => Value::F64(le!(f64)),
            ValueType::Str | ValueType::Array => unreachable!("not a scalar"),
        }
    }

    /// Type of the value.
    pub fn ty(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// Any integer, widened; no other type is.
    pub fn as_int(&self) -> Option<i128> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::I8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::I16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::I32(v) => Some(v.into()),
            Value::U64(v) => Some(v.into()),
            Value::I64(v) => Some(v.into()),
            _ => None,
        }
    }

    /// Any integer that fits 32 bits without a sign.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_int()?.try_into().ok()
    }

    /// Any integer that fits 64 bits without a sign.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_int()?.try_into().ok()
    }

    /// A float of either width.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        }
    }

    /// A bool.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// A string's bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(v) => Some(v),
            _ => None,
        }
    }

    /// A string as text, with U+FFFD for what is not UTF-8.
    pub fn as_str_lossy(&self) -> Option<Cow<'_, str>> {
        self.as_bytes().map(String::from_utf8_lossy)
    }

    /// An array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }
}

/// The value as a person reads it; arrays as their type and length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::F32(v) => write!(f, "{v}"),
            Value::F64(v) => write!(f, "{v}"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::Str(v) => f.write_str(&String::from_utf8_lossy(v)),
            Value::Array(v) => write!(f, "{}[{}]", v.elem.name(), v.len),
            int => write!(f, "{}", int.as_int().expect("only integers are left")),
        }
    }
}

/// An array value, still lying in the file.
#[derive(Clone)]
pub struct Array {
    elem: ValueType,
    len: usize,
    file: Bytes,
    at: Place,
}

/// Where the elements of an array lie.
#[derive(Clone)]
pub(crate) enum Place {
    /// Scalars: position of the first.
    Scalars(usize),
    /// Strings: position of each string's text; its length stands in the 8 bytes before.
    Strings(Vec<usize>),
    /// Arrays of arrays: checked, but nothing reads them; where they lie.
    Nested(Range<usize>),
}

impl Array {
    /// The reader has checked that every element lies inside `file`.
    pub(crate) fn new(elem: ValueType, len: usize, file: Bytes, at: Place) -> Array {
        Array {
            elem,
            len,
            file,
            at,
        }
    }

    /// An array of strings.
    pub fn of_strs<'t>(strs: impl IntoIterator<Item = &'t [u8]>) -> Array {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for s in strs {
            bytes.extend((s.len() as u64).to_le_bytes());
            starts.push(bytes.len());
            bytes.extend(s);
        }
        let (len, at) = (starts.len(), Place::Strings(starts));
        Array::new(ValueType::Str, len, bytes.into(), at)
    }

    /// An array of 32-bit floats.
    pub fn of_f32(values: &[f32]) -> Array {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let at = Place::Scalars(0);
        Array::new(ValueType::F32, values.len(), bytes.into(), at)
    }

    /// An array of 32-bit integers.
    pub fn of_i32(values: &[i32]) -> Array {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let at = Place::Scalars(0);
        Array::new(ValueType::I32, values.len(), bytes.into(), at)
    }

    /// The elements as they lie in a file.
    pub(crate) fn raw(&self) -> &[u8] {
        let range = match &self.at {
            Place::Scalars(start) => *start..*start + self.len * self.elem.size().unwrap_or(0),
            Place::Strings(starts) => {
                match (starts.first(), self.strs().and_then(Iterator::last)) {
                    (Some(first), Some(last)) => first - 8..starts[starts.len() - 1] + last.len(),
                    _ => 0..0,
                }
            }
            Place::Nested(range) => range.clone(),
        };
        &self.file[range]
    }

    /// Type of the elements.
    pub fn elem(&self) -> ValueType {
        self.elem
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The strings' bytes, in order; `None` unless this is an array of strings.
    pub fn strs(&self) -> Option<impl ExactSizeIterator<Item = &[u8]>> {
        let Place::Strings(starts) = &self.at else {
            return None;
        };
        Some(starts.iter().map(|&start| {
            let len = self.file[start - 8..start].try_into().expect("eight bytes");
            &self.file[start..start + u64::from_le_bytes(len) as usize]
        }))
    }

    /// The elements, in order; `None` unless they are scalars.
    pub fn scalars(&self) -> Option<impl ExactSizeIterator<Item = Value>> {
        let (Place::Scalars(start), Some(size)) = (&self.at, self.elem.size()) else {
            return None;
        };
        let bytes = &self.file[*start..*start + self.len * size];
        Some(
            bytes
                .chunks_exact(size)
                .map(|b| Value::scalar(self.elem, b)),
        )
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}[{}]", self.elem.name(), self.len)
    }
}
