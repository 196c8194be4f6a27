//! Compiled pipelines kept on disk between runs, one file per device, driver and version, where the
//! backend can hand them out. A file that is damaged or another driver's is ignored; one that
//! cannot be written costs only the next start's time.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use super::trusted;

/// The device's pipeline cache and the file it is kept in; neither without a folder or the feature.
#[derive(Default)]
pub struct Cache(Option<Kept>);

struct Kept {
    cache: wgpu::PipelineCache,
    path: PathBuf,
    /// Digest of what the file held.
    old: Option<Vec<u8>>,
    /// Bytes of a cache that holds nothing.
    empty: usize,
}

impl Cache {
    /// The cache of a device that has the feature, filled from its file in `dir`.
    pub fn open(device: &wgpu::Device, info: &wgpu::AdapterInfo, dir: Option<&Path>) -> Cache {
        let named = wgpu::util::pipeline_cache_key(info);
        let (Some(dir), Some(key)) = (dir, named) else {
            return Cache(None);
        };
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return Cache(None);
        }
        let driver =
            digest(format!("{} {} {}", info.name, info.driver, info.driver_info).as_bytes());
        let driver: String = driver[..8].iter().map(|b| format!("{b:02x}")).collect();
        let version = env!("CARGO_PKG_VERSION");
        let path = dir.join(format!("{key}_{driver}_{version}.bin"));
        let empty = trusted::pipeline_cache(device, None).get_data();
        let data = match read(&path) {
            Ok(data) => Some(data),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => {
                tracing::debug!("{} is ignored: {e}", path.display());
                None
            }
        };
        tracing::debug!(bytes = data.as_ref().map_or(0, Vec::len), "pipeline cache");
        Cache(Some(Kept {
            cache: trusted::pipeline_cache(device, data.as_deref()),
            path,
            old: data.map(|d| digest(&d)),
            empty: empty.map_or(0, |d| d.len()),
        }))
    }

    /// What pipelines are made with.
    pub fn get(&self) -> Option<&wgpu::PipelineCache> {
        self.0.as_ref().map(|k| &k.cache)
    }

    /// Writes the file if there is anything new.
    pub fn save(&self) {
        let Some(k) = &self.0 else { return };
        let Some(data) = k.cache.get_data().filter(|d| d.len() > k.empty) else {
            return; // some drivers keep compiled shaders in a place of their own
        };
        if k.old.as_ref() == Some(&digest(&data)) {
            return;
        }
        match write(&k.path, &data) {
            Ok(()) => tracing::debug!(bytes = data.len(), "pipeline cache written"),
            Err(e) => tracing::debug!("{} is not written: {e}", k.path.display()),
        }
    }
}

fn digest(data: &[u8]) -> Vec<u8> {
    Sha256::digest(data).to_vec()
}

/// The data of a file: its digest comes first.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::read(path)?;
    match file.split_at_checked(32) {
        Some((sum, data)) if digest(data) == sum => Ok(data.to_vec()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is damaged: its checksum is wrong",
        )),
    }
}

/// Writes beside the file and renames, so that whoever reads it finds all or nothing.
fn write(path: &Path, data: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let written =
        fs::write(&part, [&digest(data), data].concat()).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_refused_and_a_whole_one_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/cache.bin");
        assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        write(&path, b"pipelines").unwrap();
        assert_eq!(read(&path).unwrap(), b"pipelines");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let whole = fs::read(&path).unwrap();
        for bad in [
            &whole[..40],
            &whole[..31],
            &[],
            &[&whole[..], b"!"].concat(),
        ] {
            fs::write(&path, bad).unwrap();
            assert_eq!(read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        write(&path, b"pipelines").unwrap();
        assert_eq!(read(&path).unwrap(), b"pipelines");
    }
}
