//! The stages of the drivers and the device: the Vulkan loader, its driver manifests and the libraries
//! they name, who may open the device nodes; then which adapter the engine finds.

use super::Doctor;
use super::stage::{Outcome, Whose};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tokstep::Result;
use tokstep::gpu::{self, AdapterInfo};

/// Variables that replace the manifests a loader finds, the newest first.
const INSTEAD: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

const INSTALL: &str = "install a driver (Debian and Ubuntu: apt install libvulkan1 mesa-vulkan-drivers; for \
                       NVIDIA its own driver; in a container also hand in the device)";

/// Looks at drivers and adapters; the one that is picked.
pub fn stage(d: &mut Doctor, device: Option<&str>) -> Result<Option<AdapterInfo>> {
    let adapters = gpu::adapters(device);
    d.stage("driver", Whose::Machine, &[], || {
        if !cfg!(target_os = "linux") {
            return Outcome::Fine("this system has its drivers by itself".into());
        }
        let seen = Seen::look(&|name| std::env::var_os(name), Path::new("/"));
        let found = adapters.as_ref().map_or(0, Vec::len);
        let hardware = adapters
            .as_ref()
            .is_ok_and(|all| all.iter().any(|a| a.kind != "software"));
        seen.judge(found > 0 || is_other_wish(&adapters), hardware)
    })?;
    let mut picked = None;
    d.stage("device", Whose::Machine, &[], || match adapters {
        Err(e) => Outcome::of(&e, "see driver above, and `tokstep devices`"),
        Ok(all) => {
            picked = all.into_iter().find(|a| a.picked);
            match &picked {
                None => Outcome::Failed("no adapter was picked".into(), INSTALL.into()),
                Some(a) => {
                    let found = format!(
                        "{} ({}, {}, {}): {}",
                        a.name, a.kind, a.backend, a.driver, a.why
                    );
                    match a.kind {
                        "software" => Outcome::Note(
                            found,
                            "it computes on the CPU: right, but slow; a GPU needs its driver"
                                .into(),
                        ),
                        _ => Outcome::Fine(found),
                    }
                }
            }
        }
    })?;
    Ok(picked)
}

/// There are adapters, but none of the name that was asked for.
fn is_other_wish(adapters: &Result<Vec<AdapterInfo>>) -> bool {
    matches!(adapters, Err(tokstep::Error::NoSuchDevice { .. }))
}

/// A driver manifest.
#[derive(Debug, PartialEq)]
struct Manifest {
    file: PathBuf,
    /// What is wrong with it or with the library it names.
    wrong: Option<String>,
}

/// A device node and why it cannot be opened.
#[derive(Debug, PartialEq)]
struct Node {
    file: PathBuf,
    wrong: Option<ErrorKind>,
}

/// What a Vulkan loader would find here.
#[derive(Debug, Default)]
struct Seen {
    /// The loader's library.
    loader: Option<PathBuf>,
    /// The variable that replaces the search for manifests, and its value.
    instead: Option<(&'static str, String)>,
    manifests: Vec<Manifest>,
    nodes: Vec<Node>,
}

impl Seen {
    /// Looks below `root` with the environment `env`.
    fn look(env: &dyn Fn(&str) -> Option<OsString>, root: &Path) -> Seen {
        let set = |name: &str| env(name).filter(|v| !v.is_empty());
        let libraries = libraries(env, root);
        let at = |p: &str| root.join(p.trim_start_matches('/'));
        let mut seen = Seen {
            loader: find(&libraries, "libvulkan.so.1"),
            ..Seen::default()
        };
        let instead = INSTEAD.iter().find_map(|name| Some((*name, set(name)?)));
        let mut files = vec![];
        if let Some((name, value)) = instead {
            for path in std::env::split_paths(&value) {
                match path.is_dir() {
                    true => files.extend(jsons(&path)),
                    false => files.push(path),
                }
            }
            seen.instead = Some((name, value.to_string_lossy().into_owned()));
        } else {
            let home = set("HOME").map(PathBuf::from);
            let or_home = |name: &str, sub: &str| {
                let given = set(name).map(PathBuf::from);
                given.or_else(|| home.as_ref().map(|h| h.join(sub)))
            };
            let mut folders: Vec<PathBuf> = vec![];
            folders.extend(or_home("XDG_CONFIG_HOME", ".config"));
            folders.extend(["/etc/xdg", "/usr/local/etc", "/etc"].map(at));
            folders.extend(or_home("XDG_DATA_HOME", ".local/share"));
            match set("XDG_DATA_DIRS") {
                Some(dirs) => folders.extend(std::env::split_paths(&dirs)),
                None => folders.extend(["/usr/local/share", "/usr/share"].map(at)),
            }
            for folder in folders {
                files.extend(jsons(&folder.join("vulkan/icd.d")));
            }
        }
        let manifest = |file: PathBuf| Manifest {
            wrong: fault(&file, &libraries),
            file,
        };
        seen.manifests = files.into_iter().map(manifest).collect();
        let dri = entries(&at("/dev/dri"), "renderD");
        let nvidia = entries(&at("/dev"), "nvidia").into_iter().filter(|f| {
            let name = f.file_name().unwrap_or_default().to_string_lossy();
            name == "nvidiactl" || name.trim_start_matches("nvidia").parse::<u32>().is_ok()
        });
        seen.nodes = dri
            .into_iter()
            .chain(nvidia)
            .map(|file| {
                let opened = std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(&file);
                let wrong = opened.err().map(|e| e.kind());
                Node { file, wrong }
            })
            .collect();
        seen
    }

    /// What that means; `found`: the engine found adapters, `hardware`: one that is no software.
    fn judge(&self, found: bool, hardware: bool) -> Outcome {
        let broken: Vec<String> = self
            .manifests
            .iter()
            .filter_map(|m| Some(format!("{}: {}", m.file.display(), m.wrong.as_ref()?)))
            .collect();
        let good: Vec<String> = self
            .manifests
            .iter()
            .filter(|m| m.wrong.is_none())
            .map(|m| m.file.display().to_string())
            .collect();
        let variable = self
            .instead
            .as_ref()
            .map(|(name, value)| format!("{name}={value} replaces the drivers of the system"));
        if self.loader.is_none() && !found {
            return Outcome::Failed(
                "the Vulkan loader (libvulkan.so.1) is not installed".into(),
                INSTALL.into(),
            );
        }
        // What a variable names must be there, whatever else works.
        if let (Some(variable), false) = (&variable, broken.is_empty()) {
            let name = self.instead.as_ref().map_or("", |(name, _)| name);
            return Outcome::Failed(
                format!("{variable}, but {}", broken.join("; ")),
                format!("unset {name}, or let it name a driver's .json file that exists"),
            );
        }
        let denied: Vec<String> = self
            .nodes
            .iter()
            .filter(|n| n.wrong == Some(ErrorKind::PermissionDenied))
            .map(|n| n.file.display().to_string())
            .collect();
        if !denied.is_empty() && !hardware {
            return Outcome::Failed(
                format!("no permission to open {}", denied.join(", ")),
                "add yourself to the group that owns the node (ls -l shows it; usually: sudo usermod -aG render \
                 $USER) and log in again; in a container give it the device and the group"
                    .into(),
            );
        }
        if !found {
            return match (good.is_empty(), broken.is_empty()) {
                (true, true) => Outcome::Failed("no driver is installed".into(), INSTALL.into()),
                (true, false) => Outcome::Failed(
                    format!("no driver can be loaded: {}", broken.join("; ")),
                    INSTALL.into(),
                ),
                (false, _) => Outcome::Failed(
                    format!("drivers are installed ({}), but none found a device", good.join(", ")),
                    "is there a GPU, and is its kernel module loaded (lspci -k)? VK_LOADER_DEBUG=all tells what each \
                     driver says; mesa-vulkan-drivers has a software device"
                        .into(),
                ),
            };
        }
        let text = match variable {
            Some(variable) => format!("{variable}; {} can be loaded", good.join(", ")),
            None => format!("the loader and {} drivers can be loaded", good.len()),
        };
        if !broken.is_empty() {
            return Outcome::Note(
                format!("{text}; not: {}", broken.join("; ")),
                "remove those drivers, or install them again".into(),
            );
        }
        match (hardware, self.nodes.is_empty()) {
            (false, true) => Outcome::Note(
                format!("{text}; there is no GPU's device node (/dev/dri/renderD*, /dev/nvidia*)"),
                "a machine with a GPU lacks its kernel module, or this container was not given the device \
                 (docker: --device /dev/dri, or --gpus all)"
                    .into(),
            ),
            (false, false) => Outcome::Note(
                format!("{text}; a GPU's device node is there, but no driver for it works"),
                "install the driver of that GPU".into(),
            ),
            _ => Outcome::Fine(text),
        }
    }
}

/// What is wrong with a manifest: it must be there, be JSON, and name a library that is there.
fn fault(file: &Path, libraries: &[PathBuf]) -> Option<String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Some("there is no such file".into()),
        Err(e) => return Some(e.to_string()),
    };
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else {
        return Some("it is no JSON, so no driver manifest".into());
    };
    let Some(library) = json["ICD"]["library_path"].as_str() else {
        return Some("it names no library (ICD.library_path)".into());
    };
    let there = match (library.starts_with('/'), library.contains('/')) {
        (true, _) => Path::new(library).exists(),
        (false, true) => file.with_file_name(library).exists(),
        // The linker looks in more places than we do, so only what is nowhere is missing.
        (false, false) => find(libraries, library).is_some(),
    };
    (!there).then(|| format!("its library {library} is missing"))
}

/// Where libraries are looked for.
fn libraries(env: &dyn Fn(&str) -> Option<OsString>, root: &Path) -> Vec<PathBuf> {
    let given = env("LD_LIBRARY_PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::env::split_paths(&given).collect();
    let at = |p: &str| root.join(p);
    // Folders that the linker's configuration adds.
    for file in entries(&at("etc/ld.so.conf.d"), "") {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().map(str::trim).filter(|l| l.starts_with('/'));
        all.extend(lines.map(|l| root.join(l.trim_start_matches('/'))));
    }
    for lib in [
        "usr/lib",
        "lib",
        "usr/lib64",
        "lib64",
        "usr/local/lib",
        "run/opengl-driver/lib",
    ] {
        all.push(at(lib));
        // Debian's folder for each architecture.
        all.extend(
            entries(&at(lib), "")
                .into_iter()
                .filter(|p| p.to_string_lossy().ends_with("-linux-gnu") && p.is_dir()),
        );
    }
    all
}

fn find(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|f| f.join(name)).find(|p| p.exists())
}

/// Manifests in a folder.
fn jsons(folder: &Path) -> Vec<PathBuf> {
    let mut all = entries(folder, "");
    all.retain(|p| p.extension().is_some_and(|e| e == "json"));
    all
}

/// Paths in a folder whose names begin so, sorted.
fn entries(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let Ok(list) = std::fs::read_dir(folder) else {
        return vec![];
    };
    let mut all: Vec<PathBuf> = list.filter_map(|e| Some(e.ok()?.path())).collect();
    all.retain(|p| {
        let name = p.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with(begin)
    });
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> PathBuf {
        static N: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = N.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tokstep-doctor-{}-{n}", std::process::id()));
        for (file, text) in files {
            let path = dir.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    const LOADER: (&str, &str) = ("usr/lib/x86_64-linux-gnu/libvulkan.so.1", "");
    const MANIFEST: (&str, &str) = (
        "usr/share/vulkan/icd.d/a.json",
        r#"{"ICD": {"library_path": "liba.so"}}"#,
    );

    /// What is said of a machine with these files, on which no adapter was found.
    fn failed(files: &[(&str, &str)], env: &dyn Fn(&str) -> Option<OsString>) -> String {
        let dir = root(files);
        let seen = Seen::look(env, &dir);
        std::fs::remove_dir_all(&dir).unwrap();
        match seen.judge(false, false) {
            Outcome::Failed(wrong, advice) => format!("{wrong} -> {advice}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = |_: &str| None;
        assert!(failed(&[], &none).contains("libvulkan.so.1"));
        assert!(failed(&[LOADER], &none).contains("no driver is installed"));
        let text = failed(&[LOADER, MANIFEST], &none);
        assert!(
            text.contains("a.json") && text.contains("liba.so is missing"),
            "{text}"
        );
        let text = failed(&[LOADER, MANIFEST, ("usr/lib/liba.so", "")], &none);
        assert!(text.contains("none found a device"), "{text}");
        for name in INSTEAD {
            let env = |n: &str| (n == name).then(|| "/no/such/icd.json".into());
            let text = failed(&[LOADER, MANIFEST, ("usr/lib/liba.so", "")], &env);
            let words = [name, "/no/such/icd.json", "there is no such file", "unset"];
            assert!(words.iter().all(|w| text.contains(w)), "{text}");
        }
    }

    #[test]
    fn a_node_without_permission_is_told_unless_hardware_works() {
        let seen = Seen {
            loader: Some("libvulkan.so.1".into()),
            nodes: vec![Node {
                file: "/dev/dri/renderD128".into(),
                wrong: Some(ErrorKind::PermissionDenied),
            }],
            ..Seen::default()
        };
        let Outcome::Failed(wrong, advice) = seen.judge(true, false) else {
            panic!("a software device was taken for the GPU");
        };
        assert!(wrong.contains("renderD128") && advice.contains("render"));
        assert!(matches!(seen.judge(true, true), Outcome::Fine(_)));
    }
}
