//! `tokstep bench --log FILE`: every run as one line of JSON, appended whole, so that runs side by
//! side lose nothing of each other.

use super::measure::Yardsticks;
use super::row::{self, Row};
use crate::cli::progress;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tokstep::engine::EngineInfo;
use tokstep::models::{self, Named};
use tokstep::{Error, Result, gguf};

/// A log that can be written to.
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens a log, or makes it: before measuring, so that no measurement is lost to a wrong path.
    pub fn open(path: &Path) -> Result<Log> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        match file {
            Ok(file) => Ok(Log {
                path: path.into(),
                file,
            }),
            Err(source) => Err(Error::Io {
                path: path.into(),
                source,
            }),
        }
    }

    /// Appends a value as a line.
    pub fn append(&mut self, value: &Value) -> Result<()> {
        append(&mut self.file, value).map_err(|source| Error::Io {
            path: self.path.clone(),
            source,
        })
    }
}

/// One write of a whole line at the file's end. The lock keeps others from beginning theirs between
/// our look at the last byte and our write; where a file system has no locks, appending still does.
fn append(file: &mut File, value: &Value) -> io::Result<()> {
    let locked = file.lock().is_ok();
    let written = (|| {
        let mut line = format!("{value}\n");
        // What a full disk or a crash left of a line must not swallow this one.
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                line.insert(0, '\n');
            }
        }
        match file.write(line.as_bytes())? {
            n if n == line.len() => Ok(()),
            n => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {n} of {} bytes of the line were written", line.len()),
            )),
        }
    })();
    if locked {
        let _ = file.unlock();
    }
    written
}

/// A run: its configuration and its results.
pub fn line(info: &EngineInfo, files: Value, yard: Yardsticks, rows: &[Row]) -> Value {
    let types: serde_json::Map<String, Value> = info
        .work
        .types
        .iter()
        .map(|(name, n)| (name.to_string(), json!(n)))
        .collect();
    let mut line = head([&info.device, &info.backend, &info.driver]);
    line.extend(row::object(json!({
        "model": info.model_name,
        "arch": info.arch,
        "files": files,
        "model_bytes": info.model_bytes,
        "n_params": info.n_params,
        "types": types,
        "context": info.context,
        "weight_bytes": info.memory.weights,
        "kv_bytes": info.memory.kv,
        "scratch_bytes": info.memory.scratch,
        "load_ms": info.load_ms,
        "copy_gb_per_s": yard.copy / 1e9,
        "peak_gflop_per_s": yard.peak / 1e9,
        "rows": rows,
    })));
    line.into()
}

/// What every line begins with: the build and the machine; `device` is its name, backend and driver.
pub fn head([device, backend, driver]: [&str; 3]) -> Row {
    row::object(json!({
        "date": row::now(),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("TOKSTEP_COMMIT"),
        "flags": std::env::args().skip(1).collect::<Vec<_>>(),
        "os": std::env::consts::OS,
        "cpu_arch": std::env::consts::ARCH,
        "cpus": std::thread::available_parallelism().map_or(0, |n| n.get()),
        "device": device,
        "backend": backend,
        "driver": driver,
    }))
}

/// The files of a MODEL with size and SHA-256. A model known by name was checked when it was fetched;
/// others are read, with a bar.
pub fn files(model: &str, path: &Path) -> Result<Value> {
    let known = match models::resolve(model)? {
        Named::Known(known) => Some(known.sha256),
        Named::Path(_) => None,
    };
    let mut all = vec![];
    for path in gguf::split_files(path) {
        let error = |source| Error::Io {
            path: path.clone(),
            source,
        };
        let bytes = std::fs::metadata(&path).map_err(error)?.len();
        let sha256 = match known {
            Some(hash) => hash.to_owned(),
            None => {
                let bar = progress::bytes("sha256", bytes);
                let hash = models::sha256(&path, &mut |n| bar.inc(n));
                bar.finish_and_clear();
                hash.map_err(error)?
            }
        };
        all.push(json!({ "path": path, "bytes": bytes, "sha256": sha256 }));
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_side_by_side_lose_no_line() {
        let path = std::env::temp_dir().join(format!("tokstep-log-{}", std::process::id()));
        std::fs::write(&path, "{\"torn\":").unwrap();
        let write = |who: usize| {
            let mut log = Log::open(&path).unwrap();
            for i in 0..50 {
                let line = json!({ "who": who, "i": i, "long": "x".repeat(20_000) });
                log.append(&line).unwrap();
            }
        };
        std::thread::scope(|s| (0..4).for_each(|who| drop(s.spawn(move || write(who)))));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("{\"torn\":"));
        let mut next = [0; 4];
        for line in lines {
            let line: Value = serde_json::from_str(line).unwrap();
            let who = line["who"].as_u64().unwrap() as usize;
            assert_eq!(line["i"], next[who], "in its own order");
            next[who] += 1;
        }
        assert_eq!(next, [50; 4]);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_named() {
        let dir = std::env::temp_dir();
        let error = Log::open(&dir).err().unwrap().to_string();
        assert!(error.starts_with(&dir.display().to_string()), "{error}");
    }
}
