//! Metadata values. Scalars and strings are decoded when the file is opened; an array is kept as the
//! bytes it has in the file and decoded on use, so a list of 262144 tokens costs one offset per token.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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

/// An array value, as its elements' bytes. Cloning copies a pointer.
#[derive(Clone)]
pub struct Array {
    elem: ValueType,
    len: usize,
    bytes: Arc<Vec<u8>>,
    /// Of strings: where each ends in `bytes`, which are their texts one after the other.
    ends: Arc<Vec<u32>>,
}

impl Array {
    /// Scalars, as they lie in a file.
    pub(crate) fn of_scalars(elem: ValueType, len: usize, bytes: Vec<u8>) -> Array {
        assert_eq!(Some(bytes.len()), elem.size().map(|s| s * len));
        Array {
            elem,
            len,
            bytes: bytes.into(),
            ends: Arc::default(),
        }
    }

    /// Strings: their texts one after the other, and where each ends.
    pub(crate) fn of_texts(text: Vec<u8>, ends: Vec<u32>) -> Array {
        Array {
            elem: ValueType::Str,
            len: ends.len(),
            bytes: text.into(),
            ends: ends.into(),
        }
    }

    /// Arrays, checked and as they lie in a file: nothing reads what is in them.
    pub(crate) fn of_arrays(len: usize, raw: Vec<u8>) -> Array {
        Array {
            elem: ValueType::Array,
            len,
            bytes: raw.into(),
            ends: Arc::default(),
        }
    }

    /// An array of strings.
    pub fn of_strs<'t>(strs: impl IntoIterator<Item = &'t [u8]>) -> Array {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for s in strs {
            text.extend(s);
            ends.push(u32::try_from(text.len()).expect("texts below 4 GiB"));
        }
        Array::of_texts(text, ends)
    }

    /// An array of 32-bit floats.
    pub fn of_f32(values: &[f32]) -> Array {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array::of_scalars(ValueType::F32, values.len(), bytes)
    }

    /// An array of 32-bit integers.
    pub fn of_i32(values: &[i32]) -> Array {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Array::of_scalars(ValueType::I32, values.len(), bytes)
    }

    /// Writes type, length and elements as a file has them.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.elem.id().to_le_bytes());
        out.extend((self.len as u64).to_le_bytes());
        match self.strs() {
            Some(strs) => strs.for_each(|s| {
                out.extend((s.len() as u64).to_le_bytes());
                out.extend(s);
            }),
            None => out.extend_from_slice(&self.bytes),
        }
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
        let mut start = 0;
        (self.elem == ValueType::Str).then(|| {
            self.ends.iter().map(move |&end| {
                let text = &self.bytes[start..end as usize];
                start = end as usize;
                text
            })
        })
    }

    /// The elements, in order; `None` unless they are scalars.
    pub fn scalars(&self) -> Option<impl ExactSizeIterator<Item = Value>> {
        let elements = self.bytes.chunks_exact(self.elem.size()?);
        Some(elements.map(|b| Value::scalar(self.elem, b)))
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}[{}]", self.elem.name(), self.len)
    }
}
