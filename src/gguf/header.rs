//! Reads the header of one file: magic, version, metadata, tensor list; and checks that every
//! tensor lies inside the file (source: ggml's `docs/gguf.md`).

use super::bytes::Bytes;
use super::ggml_type::{self, GgmlType};
use super::reader::Reader;
use super::value::Value;
use crate::{Error, Result};
use std::collections::HashSet;
use std::path::Path;

/// Shortest key and value: key length, value type, one byte.
const LEAST_KEY: u64 = 8 + 4 + 1;
/// Shortest tensor entry: name length, number of dimensions, one dimension, type, offset.
const LEAST_TENSOR: u64 = 8 + 4 + 8 + 4 + 8;
const DEFAULT_ALIGNMENT: u64 = 32;

/// What a file says about one tensor. Its place and size have been checked.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Name, e.g. `blk.0.attn_q.weight`.
    pub name: String,
    /// 1 to 4 sizes in GGUF order: weights per row first.
    pub shape: Vec<u64>,
    /// Type of the weights.
    pub ty: &'static GgmlType,
    /// Which file of a split model holds the data.
    pub(super) part: usize,
    /// First byte in that file.
    pub(super) start: u64,
    /// Bytes of data.
    pub(super) bytes: u64,
    /// Bytes that are there; if fewer than `bytes`, they repeat until the tensor is full.
    pub(super) held: u64,
}

impl TensorInfo {
    /// Bytes of data in the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of weights.
    pub fn weights(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Bytes of one row of `shape[0]` weights.
    pub fn row_bytes(&self) -> u64 {
        self.shape[0] / self.ty.block * self.ty.bytes
    }

    /// Rows after which the rows repeat; `None` if they do not, as in every file.
    pub fn period(&self) -> Option<usize> {
        (self.held < self.bytes).then_some((self.held / self.row_bytes()) as usize)
    }

    /// Number of rows of `shape[0]` weights.
    pub fn rows(&self) -> u64 {
        self.shape[1..].iter().product()
    }
}

pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) meta: Vec<(String, Value)>,
    pub(crate) tensors: Vec<TensorInfo>,
    /// First byte behind the last tensor, where the next one would begin.
    pub(crate) end: u64,
}

impl Header {
    /// Reads the header of `file`, whose tensors must lie within `size` bytes.
    pub(crate) fn read(path: &Path, file: &Bytes, part: usize, size: u64) -> Result<Header> {
        let mut r = Reader::new(path, file);
        let version = read_version(&mut r, file.len())?;
        let n_tensors = r.count(LEAST_TENSOR, &|| "the number of tensors".into())?;
        let n_kv = r.count(LEAST_KEY, &|| "the number of metadata keys".into())?;
        let meta = read_meta(&mut r, n_kv)?;
        let alignment = match meta.iter().find(|(key, _)| key == "general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some((_, v)) => match v.as_u64() {
                Some(a) if a.is_power_of_two() && (8..=1 << 30).contains(&a) => a,
                _ => {
                    let found = v.to_string();
                    return Err(Error::GgufAlignment {
                        path: path.to_owned(),
                        found,
                    });
                }
            },
        };
        let mut tensors = Vec::new();
        let mut names = HashSet::new();
        for i in 0..n_tensors {
            let t = read_tensor(&mut r, i, part)?;
            if !names.insert(t.name.clone()) {
                return Err(Error::TensorTwice {
                    path: path.to_owned(),
                    name: t.name,
                });
            }
            tensors.push(t);
        }
        let data = r.pos().next_multiple_of(alignment);
        place(path, &mut tensors, data, alignment, size)?;
        let last = tensors.iter().map(|t| t.start + t.bytes).max();
        Ok(Header {
            version,
            alignment,
            meta,
            tensors,
            end: last.unwrap_or(data).next_multiple_of(alignment),
        })
    }
}

fn read_version(r: &mut Reader, size: u64) -> Result<u32> {
    let path = r.path.to_owned();
    let start = r.look(size.min(16))?;
    if !start.starts_with(b"GGUF") {
        return Err(Error::NotGguf {
            path,
            start: start.to_vec(),
        });
    }
    r.take(4, &String::new)?;
    match r.u32(&|| "the version".into())? {
        version @ (2 | 3) => Ok(version),
        // A small number read with the wrong byte order is a large one.
        v if v.swap_bytes() < 1 << 16 && v != 0 => Err(Error::GgufBigEndian { path }),
        version => Err(Error::GgufVersion { path, version }),
    }
}

fn read_meta(r: &mut Reader, n_kv: usize) -> Result<Vec<(String, Value)>> {
    let mut meta: Vec<(String, Value)> = Vec::new();
    let mut keys = HashSet::new();
    for i in 0..n_kv {
        let key = r
            .bytes(&|| format!("the name of metadata key {i}"))?
            .to_vec();
        let name = String::from_utf8_lossy(&key).into_owned();
        if !keys.insert(key) {
            return Err(Error::KeyTwice {
                path: r.path.to_owned(),
                key: name,
            });
        }
        let key = name;
        let value = r.value(&key)?;
        meta.push((key, value));
    }
    Ok(meta)
}

/// Reads one entry of the tensor list; `start` is still relative to the data section.
fn read_tensor(r: &mut Reader, i: usize, part: usize) -> Result<TensorInfo> {
    let path = r.path;
    let name = r.bytes(&|| format!("the name of tensor {i}"))?;
    let Ok(name) = str::from_utf8(name) else {
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(Error::TensorName {
            path: path.to_owned(),
            name,
        });
    };
    let name = name.to_owned();
    let what = || format!("the description of tensor {name}");
    let n_dims = r.u32(&what)?;
    if !(1..=4).contains(&n_dims) {
        return Err(Error::TensorDims {
            path: path.to_owned(),
            name,
            n_dims,
        });
    }
    let shape = (0..n_dims)
        .map(|_| r.u64(&what))
        .collect::<Result<Vec<u64>>>()?;
    let id = r.u32(&what)?;
    let start = r.u64(&what)?;
    let Some(ty) = ggml_type::by_id(id) else {
        let removed = ggml_type::removed_name(id);
        return Err(Error::TensorType {
            path: path.to_owned(),
            name,
            id,
            removed,
        });
    };
    let weights = shape
        .iter()
        .try_fold(1u64, |n, &d| n.checked_mul(d))
        .filter(|&n| n > 0);
    let bytes = weights.and_then(|n| (n / ty.block).checked_mul(ty.bytes));
    let Some(bytes) = bytes.filter(|&b| b <= i64::MAX as u64) else {
        return Err(Error::TensorSize {
            path: path.to_owned(),
            name,
            shape,
        });
    };
    if !shape[0].is_multiple_of(ty.block) {
        return Err(Error::TensorRow {
            path: path.to_owned(),
            name,
            ty: ty.name,
            row: shape[0],
            block: ty.block,
        });
    }
    Ok(TensorInfo {
        name,
        shape,
        ty,
        part,
        start,
        bytes,
        held: bytes,
    })
}

/// Turns offsets into places in the file, and checks alignment, end of file and overlap.
fn place(
    path: &Path,
    tensors: &mut [TensorInfo],
    data: u64,
    alignment: u64,
    size: u64,
) -> Result<()> {
    for t in tensors.iter_mut() {
        let offset = t.start;
        let (path, name) = (|| path.to_owned(), || t.name.clone());
        if !offset.is_multiple_of(alignment) {
            return Err(Error::TensorOffset {
                path: path(),
                name: name(),
                offset,
                alignment,
            });
        }
        // The sum of header, offset and bytes may pass 2^64; the end is then reported as that.
        let end = data.saturating_add(offset).saturating_add(t.bytes);
        if end > size {
            return Err(Error::TensorTruncated {
                path: path(),
                name: name(),
                end,
                size,
            });
        }
        t.start = data + offset;
    }
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|t| t.start);
    for pair in order.windows(2) {
        if pair[0].start + pair[0].bytes > pair[1].start {
            let (a, b) = (pair[0].name.clone(), pair[1].name.clone());
            return Err(Error::TensorOverlap {
                path: path.to_owned(),
                a,
                b,
            });
        }
    }
    Ok(())
}
