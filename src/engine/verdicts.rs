//! What tuning found, kept on disk: one JSON file per device, driver, version and set of shaders. A file
//! that is damaged or of something else is as good as none.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::gpu::Gpu;
use crate::kernel::{Caps, shader};
use crate::plan::sizes::stride;
use crate::plan::tuning::candidates;
use crate::plan::{Shape, Tuning};

/// The file of a device.
pub(super) struct Verdicts {
    path: PathBuf,
    key: Value,
}

impl Verdicts {
    /// The file of this device in a folder.
    pub fn of(dir: &Path, gpu: &Gpu) -> Verdicts {
        let key = json!({
            "device": gpu.name,
            "driver": gpu.driver,
            "backend": gpu.backend,
            "caps": format!("{:?}", gpu.caps),
            "tokstep": env!("CARGO_PKG_VERSION"),
            "shaders": shaders(),
        });
        Verdicts::new(dir, key)
    }

    fn new(dir: &Path, key: Value) -> Verdicts {
        let name = hash(&[key.to_string().as_bytes()]);
        Verdicts {
            path: dir.join(format!("{}.json", &name[..16])),
            key,
        }
    }

    /// What is known of these shapes.
    pub fn read(&self, caps: &Caps, shapes: impl Iterator<Item = Shape>) -> Tuning {
        let cuts = self.cuts();
        let mut tuning = Tuning::default();
        for shape in shapes {
            let name = cuts.get(&shape.to_string()).and_then(Value::as_str);
            let all = candidates(caps, stride(shape.k), shape.cols);
            if let Some(cut) = all.into_iter().find(|c| Some(&*c.to_string()) == name) {
                tuning.set(shape, cut);
            }
        }
        tuning
    }

    /// Adds these to what is kept. Without a folder that can be written the next load measures again.
    pub fn keep(&self, tuning: &Tuning) {
        let mut cuts = self.cuts();
        for (shape, cut) in tuning.iter() {
            cuts.insert(shape.to_string(), json!(cut.to_string()));
        }
        if let Err(e) = self.write(&json!({"key": self.key, "cuts": cuts})) {
            tracing::debug!("{}: not kept: {e}", self.path.display());
        }
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

    /// What the file says: a cut by shape.
    fn cuts(&self) -> Map<String, Value> {
        let ignored = |why: &str| {
            tracing::debug!("{}: ignored, {why}", self.path.display());
            Map::new()
        };
        let text = match std::fs::read_to_string(&self.path) {
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
        match value.get_mut("cuts").map(Value::take) {
            Some(Value::Object(cuts)) => cuts,
            _ => ignored("it has no table of cuts"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Caps {
        Caps {
            subgroups: true,
            subgroup_min: 32,
            subgroup_max: 32,
            software: false,
            max_storage: 128 << 20,
            max_uniform: 64 << 10,
            max_texture: 16384,
            max_layers: 2048,
            max_grid: 65535,
            max_lanes: 1024,
            avoid: crate::kernel::choose::Avoid::default(),
        }
    }

    fn shape(rows: u32) -> Shape {
        Shape {
            ty: "Q4_K",
            rows,
            k: 512,
            cols: 1,
        }
    }

    /// Shapes of 1 to `n` rows, each with another cut.
    fn table(n: u32) -> Tuning {
        let mut t = Tuning::default();
        let all = candidates(&caps(), 512, 1);
        for rows in 1..=n {
            t.set(shape(rows), all[rows as usize % all.len()]);
        }
        t
    }

    fn read(v: &Verdicts) -> Tuning {
        v.read(&caps(), (1..100).map(shape))
    }

    #[test]
    fn what_is_kept_is_read_and_more_is_added() {
        let dir = tempfile::tempdir().unwrap();
        let v = Verdicts::new(&dir.path().join("not there yet"), json!({"device": "a"}));
        assert_eq!(read(&v), Tuning::default());
        v.keep(&table(3));
        assert_eq!(read(&v), table(3));
        let mut more = Tuning::default();
        table(5).iter().skip(3).for_each(|(s, c)| more.set(s, c));
        v.keep(&more);
        assert_eq!(read(&v), table(5));
        let files = std::fs::read_dir(v.path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing half written is left");
        // A cut that this device does not have is not known.
        let few = Caps {
            max_lanes: 32,
            ..caps()
        };
        let legal = v.read(&few, (1..100).map(shape));
        assert!(legal.iter().all(|(_, c)| c.lanes <= 32));
        assert!(legal.iter().count() < 5);
    }

    #[test]
    fn damaged_files_and_those_of_others_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let v = Verdicts::new(dir.path(), json!({"device": "a"}));
        v.keep(&table(3));
        let good = std::fs::read_to_string(&v.path).unwrap();
        let other = Verdicts::new(dir.path(), json!({"device": "b"}));
        assert_ne!(v.path, other.path);
        std::fs::copy(&v.path, &other.path).unwrap();
        assert_eq!(read(&other), Tuning::default());
        for bad in ["", "{", "[1]", "null", &good[..good.len() / 2]] {
            std::fs::write(&v.path, bad).unwrap();
            assert_eq!(read(&v), Tuning::default(), "{bad:?}");
        }
        for cuts in [
            json!(7),
            json!([]),
            json!({"Q4_K 1x512 x 1": 7, "Q4_K 2x512 x 1": "fast"}),
        ] {
            let text = json!({"key": {"device": "a"}, "cuts": cuts}).to_string();
            std::fs::write(&v.path, text).unwrap();
            assert_eq!(read(&v), Tuning::default());
        }
        // It is written anew.
        v.keep(&table(3));
        assert_eq!(read(&v), table(3));
    }
}
