//! What was found out about a device, kept on disk: one JSON file of tables per device, driver, version and
//! set of shaders. A file that is damaged or of something else is as good as none.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kernel::shader;

/// A file and whom it is about.
pub(super) struct Kept {
    pub path: PathBuf,
    key: Value,
}

impl Kept {
    /// The file in a folder for what `about` says (an object); version and shaders are added.
    pub fn of(dir: &Path, mut about: Value) -> Kept {
        about["tokstep"] = json!(env!("CARGO_PKG_VERSION"));
        about["shaders"] = json!(shaders());
        Kept::new(dir, about)
    }

    pub fn new(dir: &Path, key: Value) -> Kept {
        let name = hash(&[key.to_string().as_bytes()]);
        Kept {
            path: dir.join(format!("{}.json", &name[..16])),
            key,
        }
    }

    /// Writes these tables; those there were are gone. Whether that could be done: if not, the next run knows what
    /// this one did.
    pub fn keep(&self, tables: &[(&str, &Map<String, Value>)]) -> bool {
        let mut all = json!({"key": self.key});
        for (name, table) in tables {
            all[*name] = Value::Object((*table).clone());
        }
        let written = self.write(&all);
        if let Err(e) = &written {
            tracing::warn!(
                "{}: what was found out is not kept: {e}",
                self.path.display()
            );
        }
        written.is_ok()
    }

    fn write(&self, value: &Value) -> std::io::Result<()> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        // Whole or not at all, also when two loads end at once.
        let part = self
            .path
            .with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&part, format!("{value:#}\n"))?;
        let moved = std::fs::rename(&part, &self.path);
        if moved.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        moved
    }

    /// A table of the file.
    pub fn table(&self, name: &str) -> Map<String, Value> {
        let ignored = |why: &str| {
            tracing::debug!("{}: ignored, {why}", self.path.display());
            Map::new()
        };
        let text = match read(&self.path) {
            Ok(text) => text,
            Err(e) => return ignored(&e.to_string()),
        };
        let mut value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(e) => return ignored(&e.to_string()),
        };
        if value.get("key") != Some(&self.key) {
            return ignored("it is of another device or version");
        }
        match value.get_mut(name).map(Value::take) {
            Some(Value::Object(table)) => table,
            _ => ignored("a table is missing"),
        }
    }
}

/// What we write is a file, and no longer than this.
const LARGEST: u64 = 4 << 20;

/// Reads a file that may be somebody else's by now.
fn read(path: &Path) -> std::io::Result<String> {
    let about = std::fs::metadata(path)?;
    match about.is_file() && about.len() <= LARGEST {
        true => std::fs::read_to_string(path),
        false => Err(std::io::Error::other("it is not what was written here")),
    }
}

/// Hash of every shader.
fn shaders() -> String {
    let all: Vec<&[u8]> = shader::FILES
        .iter()
        .flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()])
        .collect();
    hash(&all)
}

fn hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
