//! Models split over several files, `NAME-00001-of-0000N.gguf`: which files belong together
//! (source: llama.cpp's `gguf-split`, keys `split.no`, `split.count`, `split.tensors.count`).

use super::bytes::Bytes;
use super::header::Header;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Number of this file (from 0) and of all files, by its own metadata.
fn place(path: &Path, h: &Header) -> Result<(u64, u64)> {
    let find = |key: &str, absent: u64| match h.meta.iter().find(|(k, _)| k == key) {
        None => Ok(absent),
        Some((_, v)) => v.as_u32().map(u64::from).ok_or_else(|| Error::KeyType {
            path: path.to_owned(),
            key: key.into(),
            wanted: "a count",
            found: v.ty().name().into(),
        }),
    };
    Ok((find("split.no", 0)?, find("split.count", 1)?))
}

/// `NAME-00001-of-0000N.gguf` -> the name of another part, if `path` is named that way.
fn sibling(path: &Path, no: u64, other: u64, count: u64) -> Option<PathBuf> {
    let tail = |no: u64| format!("-{:05}-of-{count:05}.gguf", no + 1);
    let stem = path.file_name()?.to_str()?.strip_suffix(&tail(no))?;
    Some(path.with_file_name(format!("{stem}{}", tail(other))))
}

/// The files of a model by the name of its first: that one alone unless it is named as a part is.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let count = path
        .file_name()
        .and_then(|name| name.to_str()?.strip_suffix(".gguf")?.rsplit_once("-of-"))
        .and_then(|(_, count)| count.parse::<u64>().ok())
        .filter(|n| (1..=99_999).contains(n));
    let parts = |n| (0..n).map(|i| sibling(path, 0, i, n)).collect();
    count
        .and_then(parts)
        .unwrap_or_else(|| vec![path.to_owned()])
}

/// The parts that follow `first`, the file the user named; empty for an ordinary model.
pub(crate) fn rest(path: &Path, first: &Header) -> Result<Vec<(Bytes, Header)>> {
    let (no, count) = place(path, first)?;
    if count <= 1 && no == 0 {
        return Ok(Vec::new());
    }
    let named = |other| {
        let path = path.to_owned();
        sibling(&path, no, other, count).ok_or(Error::SplitName {
            path,
            no: no + 1,
            count,
        })
    };
    if no != 0 {
        return Err(Error::SplitNotFirst {
            path: path.to_owned(),
            first: named(0)?,
            no: no + 1,
            count,
        });
    }
    let mut parts = Vec::new();
    for other in 1..count {
        let name = named(other)?;
        if !name.exists() {
            return Err(Error::SplitMissing {
                path: path.to_owned(),
                missing: name,
                count,
            });
        }
        let bytes = Bytes::open(&name)?;
        let header = Header::read(&name, &bytes, other as usize, bytes.len())?;
        if place(&name, &header)? != (other, count) {
            return Err(Error::SplitMixed {
                path: name,
                first: path.to_owned(),
                no: other + 1,
                count,
            });
        }
        parts.push((bytes, header));
    }
    Ok(parts)
}
