//! What tuning found, kept on disk per device: a cut by shape.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::kept::Kept;
use crate::gpu::Gpu;
use crate::kernel::Caps;
use crate::plan::sizes::stride;
use crate::plan::tuning::candidates;
use crate::plan::{Shape, Tuning};

/// The file of a device.
pub(super) struct Verdicts(Kept);

impl Verdicts {
    /// The file of this device in a folder.
    pub fn of(dir: &Path, gpu: &Gpu) -> Verdicts {
        let about = json!({
            "device": gpu.name,
            "driver": gpu.driver,
            "backend": gpu.backend,
            "caps": format!("{:?}", gpu.caps),
        });
        Verdicts(Kept::of(dir, about))
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
        self.0.keep(&[("cuts", &cuts)]);
    }

    fn cuts(&self) -> Map<String, Value> {
        self.0.table("cuts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps() -> Caps {
        Caps::usual_gpu()
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
        let v = Verdicts(Kept::new(
            &dir.path().join("not there yet"),
            json!({"device": "a"}),
        ));
        assert_eq!(read(&v), Tuning::default());
        v.keep(&table(3));
        assert_eq!(read(&v), table(3));
        let mut more = Tuning::default();
        table(5).iter().skip(3).for_each(|(s, c)| more.set(s, c));
        v.keep(&more);
        assert_eq!(read(&v), table(5));
        let files = std::fs::read_dir(v.0.path.parent().unwrap())
            .unwrap()
            .count();
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
        let v = Verdicts(Kept::new(dir.path(), json!({"device": "a"})));
        v.keep(&table(3));
        let good = std::fs::read_to_string(&v.0.path).unwrap();
        let other = Verdicts(Kept::new(dir.path(), json!({"device": "b"})));
        assert_ne!(v.0.path, other.0.path);
        std::fs::copy(&v.0.path, &other.0.path).unwrap();
        assert_eq!(read(&other), Tuning::default());
        // What is far too long is not even read.
        let long = "[".repeat(5 << 20);
        for bad in [&*long, "", "{", "[1]", "null", &good[..good.len() / 2]] {
            std::fs::write(&v.0.path, bad).unwrap();
            assert_eq!(read(&v), Tuning::default(), "{bad:?}");
        }
        for cuts in [
            json!(7),
            json!([]),
            json!({"Q4_K 1x512 x 1": 7, "Q4_K 2x512 x 1": "fast"}),
        ] {
            let text = json!({"key": {"device": "a"}, "cuts": cuts}).to_string();
            std::fs::write(&v.0.path, text).unwrap();
            assert_eq!(read(&v), Tuning::default());
        }
        // It is written anew.
        v.keep(&table(3));
        assert_eq!(read(&v), table(3));
    }
}
