//! Writes GGUF files, version 3 (source: ggml's `docs/gguf.md`): metadata in the order given, tensors
//! one after the other, aligned as `general.alignment` says or else to 32 bytes.

use super::{GgmlType, Gguf, Value};
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

/// Bytes of a tensor that are copied at a time.
const PIECE: usize = 1 << 20;

/// A tensor of a file that is to be written.
pub struct NewTensor {
    /// Name, e.g. `blk.0.attn_q.weight`.
    pub name: String,
    /// 1 to 4 sizes in GGUF order: weights per row first.
    pub shape: Vec<u64>,
    /// Type of the weights.
    pub ty: &'static GgmlType,
}

/// Everything before the data of the first tensor.
pub fn header(meta: &[(String, Value)], tensors: &[NewTensor]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((meta.len() as u64).to_le_bytes());
    let mut alignment = 32;
    for (key, v) in meta {
        if key == "general.alignment" {
            alignment = v.as_u64().unwrap_or(alignment);
        }
        string(&mut out, key.as_bytes());
        out.extend(v.ty().id().to_le_bytes());
        value(&mut out, v);
    }
    let mut offset = 0u64;
    for t in tensors {
        string(&mut out, t.name.as_bytes());
        out.extend((t.shape.len() as u32).to_le_bytes());
        for d in &t.shape {
            out.extend(d.to_le_bytes());
        }
        out.extend(t.ty.id.to_le_bytes());
        out.extend(offset.to_le_bytes());
        let bytes = t.shape.iter().product::<u64>() / t.ty.block * t.ty.bytes;
        offset += bytes.next_multiple_of(alignment);
    }
    out.resize(out.len().next_multiple_of(alignment as usize), 0);
    out
}

fn string(out: &mut Vec<u8>, s: &[u8]) {
    out.extend((s.len() as u64).to_le_bytes());
    out.extend(s);
}

fn value(out: &mut Vec<u8>, v: &Value) {
    match v {
        Value::U8(v) => out.extend(v.to_le_bytes()),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Str(v) => string(out, v),
        Value::Array(v) => v.write(out),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
    }
}

impl Gguf {
    /// Writes the model into a new file, first under the name `path` with `.part` behind it. `done`
    /// is told the bytes written since it was last called. Keys of splitting are left out: it is one
    /// file. A file that exists is never replaced.
    pub fn save(&self, path: &Path, done: &mut dyn FnMut(u64)) -> Result<()> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let free = || match fs::symlink_metadata(path) {
            Ok(_) => Err(Error::FileExists {
                path: path.to_owned(),
            }),
            Err(_) => Ok(()),
        };
        free()?;
        let written = self.write(&part, done);
        let renamed = written.and_then(|()| free()).and_then(|()| {
            fs::rename(&part, path).map_err(|source| Error::Io {
                path: path.to_owned(),
                source,
            })
        });
        if renamed.is_err() {
            let _ = fs::remove_file(&part); // the first error is the one to tell
        }
        renamed
    }

    fn write(&self, path: &Path, done: &mut dyn FnMut(u64)) -> Result<()> {
        let fail = |source| Error::FileWrite {
            path: path.to_owned(),
            bytes: self.file_bytes(),
            source,
        };
        let whole = |(key, _): &&(String, Value)| !key.starts_with("split.");
        let meta: Vec<_> = self.meta().iter().filter(whole).cloned().collect();
        let tensors = self.tensors().iter().map(|t| NewTensor {
            name: t.name.clone(),
            shape: t.shape.clone(),
            ty: t.ty,
        });
        let header = header(&meta, &tensors.collect::<Vec<_>>());
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(fail)?);
        out.write_all(&header).map_err(fail)?;
        done(header.len() as u64);
        let mut data = Vec::new();
        for t in self.tensors() {
            let (rows, row) = (t.rows() as usize, t.row_bytes() as usize);
            let step = (PIECE / row.max(1)).max(1);
            for first in (0..rows).step_by(step) {
                self.rows(t, first..rows.min(first + step), &mut data)?;
                out.write_all(&data).map_err(fail)?;
                done(data.len() as u64);
            }
            let pad = t.bytes().next_multiple_of(self.alignment()) - t.bytes();
            out.write_all(&vec![0; pad as usize]).map_err(fail)?;
            done(pad);
        }
        let file = out.into_inner().map_err(IntoInnerError::into_error);
        file.and_then(|file| file.sync_all()).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Array;

    fn case(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cases")
            .join(name)
    }

    /// Files that other programs wrote come out byte by byte as they were.
    #[test]
    fn saving_gives_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        for (i, name) in ["llama_q4_k", "gemma3_q4_0", "qwen2_q5_0"]
            .iter()
            .enumerate()
        {
            let from = case(&format!("models/{name}.gguf"));
            let to = dir.path().join(format!("{i}.gguf"));
            Gguf::open(&from).unwrap().save(&to, &mut |_| ()).unwrap();
            assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "{name}");
        }
    }

    #[test]
    fn every_kind_of_value_is_read_as_it_was_written() {
        // Arrays of arrays cannot be made but by reading them.
        let nested = [
            &9u32.to_le_bytes()[..],
            &2u64.to_le_bytes(),
            &0u32.to_le_bytes(),
            &1u64.to_le_bytes(),
            &[7],
            &8u32.to_le_bytes(),
            &1u64.to_le_bytes(),
            &2u64.to_le_bytes(),
            b"ab",
        ]
        .concat();
        let strs = Array::of_strs([&b"one"[..], b"", b"\xff"]);
        let mut meta: Vec<(String, Value)> = [
            Value::U8(200),
            Value::I8(-1),
            Value::U16(60000),
            Value::I16(-2),
            Value::U32(4_000_000_000),
            Value::I32(-3),
            Value::F32(0.5),
            Value::Bool(true),
            Value::Str(b"text".to_vec()),
            Value::U64(1 << 40),
            Value::I64(-(1 << 40)),
            Value::F64(0.25),
            Value::Array(strs),
            Value::Array(Array::of_strs([])),
            Value::Array(Array::of_f32(&[1.0, -2.0])),
            Value::Array(Array::of_i32(&[3, -4, 5])),
        ]
        .into_iter()
        .enumerate()
        .map(|(i, v)| (format!("key.{i}"), v))
        .collect();
        meta.push(("general.alignment".into(), Value::U32(64)));
        let file = header(&meta, &[]);
        let plain = Gguf::from_bytes("plain", file.clone()).unwrap();
        assert_eq!(format!("{:?}", plain.meta()), format!("{meta:?}"));
        assert_eq!(header(plain.meta(), &[]), file);

        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend([0u64, 1].map(u64::to_le_bytes).concat());
        string(&mut file, b"deep");
        file.extend(9u32.to_le_bytes());
        file.extend(&nested);
        file.resize(file.len().next_multiple_of(32), 0);
        let deep = Gguf::from_bytes("deep", file.clone()).unwrap();
        assert_eq!(header(deep.meta(), &[]), file);
    }
}
