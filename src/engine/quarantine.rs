//! Which kernel variants are known to be right on a device, and which were caught computing wrong numbers:
//! those are in quarantine and never used there again (for this driver and version).

use std::path::Path;

use serde_json::{Map, Value, json};

use super::kept::Kept;
use crate::kernel::Shader;
use crate::selftest::Failure;
use crate::text::one_line;

/// Characters of evidence: what a driver says may have many lines, and what lies in a file may hold anything.
const LONGEST: usize = 1000;

/// What is known of a device's variants.
pub struct Quarantine {
    file: Option<Kept>,
    good: Map<String, Value>,
    bad: Map<String, Value>,
}

/// A variant in quarantine, and why.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The variant, as plans name it.
    pub variant: String,
    /// The case, and what was wrong in it.
    pub evidence: String,
}

impl std::fmt::Display for Caught {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.variant, self.evidence)
    }
}

impl Quarantine {
    /// What a folder knows of a device; `None`: nothing is known, and nothing is kept.
    pub fn of(dir: Option<&Path>, device: &str, driver: &str, backend: &str) -> Quarantine {
        let about = json!({"device": device, "driver": driver, "backend": backend});
        let file = dir.map(|dir| Kept::of(dir, about));
        let table = |name| file.as_ref().map_or_else(Map::new, |f| f.table(name));
        Quarantine {
            good: table("good"),
            bad: table("bad"),
            file,
        }
    }

    /// Whether a variant passed its test here and has not failed since.
    pub fn is_good(&self, shader: &Shader) -> bool {
        let name = shader.to_string();
        self.good.contains_key(&name) && !self.bad.contains_key(&name)
    }

    /// Why a variant is in quarantine, if it is.
    pub fn caught(&self, shader: &Shader) -> Option<Caught> {
        let name = shader.to_string();
        self.bad.get(&name).map(|why| caught(&name, why))
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.bad.is_empty()
    }

    /// All that are.
    pub fn all(&self) -> Vec<Caught> {
        self.bad
            .iter()
            .map(|(name, why)| caught(name, why))
            .collect()
    }

    /// Takes down that a variant passed `runs` repetitions of its cases.
    pub fn pass(&mut self, shader: &Shader, runs: u32) {
        self.good.insert(shader.to_string(), json!(runs));
    }

    /// Puts a variant into quarantine; the first evidence stays.
    pub fn catch(&mut self, f: &Failure) {
        let evidence = format!("run {} of {}: {}", f.run, f.case, f.detail);
        self.catch_named(&f.shader.to_string(), &evidence);
    }

    /// The same with a variant's name, as plans and errors have it.
    pub fn catch_named(&mut self, variant: &str, evidence: &str) {
        self.good.remove(variant);
        let bad = self.bad.entry(variant);
        bad.or_insert_with(|| json!(one_line(evidence, LONGEST)));
    }

    /// Writes all that is known, with what another process found meanwhile; whether the next load will know it.
    pub fn save(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        for (name, why) in file.table("bad") {
            self.bad.entry(name).or_insert(why);
        }
        for (name, runs) in file.table("good") {
            self.good.entry(name).or_insert(runs);
        }
        self.good.retain(|name, _| !self.bad.contains_key(name));
        file.keep(&[("good", &self.good), ("bad", &self.bad)])
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.good.clear();
        self.bad.clear();
        if let Some(file) = &self.file {
            file.keep(&[("good", &self.good), ("bad", &self.bad)]);
        }
    }
}

fn caught(name: &str, why: &Value) -> Caught {
    Caught {
        variant: one_line(name, LONGEST),
        evidence: one_line(why.as_str().unwrap_or("no evidence was kept"), LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shader(kernel: &'static str) -> Shader {
        Shader {
            kernel,
            slots: vec![("group", "slots/group_shared.wgsl")],
            overrides: vec![("WG", 64)],
        }
    }

    fn failure(kernel: &'static str) -> Failure {
        Failure {
            shader: shader(kernel),
            case: "a case".into(),
            run: 3,
            detail: "element 7 is 1, should be 2".into(),
        }
    }

    #[test]
    fn what_was_caught_stays_caught_on_this_device_only() {
        let dir = tempfile::tempdir().unwrap();
        let open = |driver| Quarantine::of(Some(dir.path()), "card", driver, "vulkan");
        let mut q = open("1.0");
        q.pass(&shader("glu"), 2);
        q.pass(&shader("sample"), 2);
        q.catch(&failure("glu"));
        q.save();
        let mut q = open("1.0");
        assert!(q.is_good(&shader("sample")) && q.caught(&shader("sample")).is_none());
        assert!(!q.is_good(&shader("glu")));
        // Passing later is no pardon: what errs now and then passes most of the time.
        q.pass(&shader("glu"), 100);
        assert!(!q.is_good(&shader("glu")));
        let why = q.caught(&shader("glu")).unwrap().to_string();
        assert!(
            why.contains("glu[group_shared, WG=64]") && why.contains("should be 2"),
            "{why}"
        );
        assert!(open("2.0").all().is_empty(), "another driver");
        q.forget();
        assert!(open("1.0").all().is_empty() && !open("1.0").is_good(&shader("sample")));
    }

    #[test]
    fn what_another_process_caught_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Quarantine::of(Some(dir.path()), "card", "1.0", "vulkan");
        let (mut a, mut b) = (open(), open());
        a.catch(&failure("glu"));
        a.save();
        b.pass(&shader("glu"), 2);
        b.catch(&failure("sample"));
        b.save();
        assert_eq!(open().all().len(), 2);
        assert!(!open().is_good(&shader("glu")) && !b.is_good(&shader("glu")));
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let mut q = Quarantine::of(None, "card", "1", "vulkan");
        q.catch(&failure("glu"));
        q.save();
        assert_eq!(q.all().len(), 1);
        assert!(Quarantine::of(None, "card", "1", "vulkan").all().is_empty());
    }
}
