//! Temperature and power as Linux shows them below `/sys`, and the process's resident memory. Which
//! sensor belongs to the device we run on no system says, so all that measure chips are read and
//! the highest counts; its name is told with the value.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where sensors are looked for if nothing else is given.
pub const ROOT: &str = "/sys";

/// hwmon chips that are no processor: disks, network, memory modules, supplies.
const OTHER_CHIPS: [&str; 9] = [
    "nvme",
    "drivetemp",
    "iwlwifi",
    "jc42",
    "spd5118",
    "BAT",
    "AC",
    "ucsi",
    "mt79",
];

/// One value with the sensor that gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Degrees Celsius, or watts.
    pub value: f64,
    /// Name of the sensor: a thermal zone's type, a chip and its label.
    pub sensor: String,
}

/// A temperature sensor.
#[derive(Debug)]
struct Temp {
    name: String,
    file: PathBuf,
}

/// What measures power.
#[derive(Debug)]
enum Meter {
    /// Microjoules used so far, up to `range`, then from 0 again.
    Energy {
        file: PathBuf,
        range: f64,
        last: Option<(f64, Instant)>,
    },
    /// Microwatts now, or a mean over about a second.
    Power(PathBuf),
    /// A battery's folder: what flows out of it, while it does.
    Battery(PathBuf),
}

#[derive(Debug)]
struct Power {
    name: String,
    meter: Meter,
}

/// The sensors below a root.
#[derive(Debug)]
pub struct Sensors {
    root: PathBuf,
    temps: Vec<Temp>,
    powers: Vec<Power>,
    /// What was there and could not be read.
    refused: Vec<String>,
}

impl Sensors {
    /// Finds every sensor below `root`, which is laid out as `/sys` is; `None`: `/sys`.
    pub fn open(root: Option<&Path>) -> Sensors {
        let mut s = Sensors {
            root: root.unwrap_or(Path::new(ROOT)).to_path_buf(),
            temps: vec![],
            powers: vec![],
            refused: vec![],
        };
        s.thermal_zones();
        s.hwmon();
        s.powercap();
        s.batteries();
        s
    }

    fn thermal_zones(&mut self) {
        for dir in folders(&self.root.join("class/thermal"), "thermal_zone") {
            let name = text(&dir.join("type")).unwrap_or_else(|| file_name(&dir));
            self.add_temp(name, dir.join("temp"));
        }
    }

    fn hwmon(&mut self) {
        for dir in folders(&self.root.join("class/hwmon"), "hwmon") {
            let chip = text(&dir.join("name")).unwrap_or_else(|| file_name(&dir));
            if OTHER_CHIPS.iter().any(|other| chip.starts_with(other)) {
                continue;
            }
            let label = |what: &str| match text(&dir.join(format!("{what}_label"))) {
                Some(label) => format!("{chip} {label}"),
                None => format!("{chip} {what}"),
            };
            for file in files(&dir) {
                if let Some(n) = numbered(&file, "temp", "_input") {
                    self.add_temp(label(&format!("temp{n}")), dir.join(&file));
                } else if let Some(n) = numbered(&file, "power", "_average").or_else(|| {
                    // The mean is the better of the two where a chip has both.
                    numbered(&file, "power", "_input")
                        .filter(|n| !dir.join(format!("power{n}_average")).exists())
                }) {
                    let name = label(&format!("power{n}"));
                    self.add_power(name, dir.join(&file), Meter::Power);
                }
            }
        }
    }

    /// RAPL: a zone for each package; zones within packages have a second colon.
    fn powercap(&mut self) {
        for dir in folders(&self.root.join("class/powercap"), "intel-rapl:") {
            if file_name(&dir).matches(':').count() > 1 {
                continue;
            }
            let zone = text(&dir.join("name")).unwrap_or_else(|| file_name(&dir));
            let range = number(&dir.join("max_energy_range_uj")).unwrap_or(f64::INFINITY);
            self.add_power(format!("RAPL {zone}"), dir.join("energy_uj"), |file| {
                Meter::Energy {
                    file,
                    range,
                    last: None,
                }
            });
        }
    }

    fn batteries(&mut self) {
        for dir in folders(&self.root.join("class/power_supply"), "") {
            let battery = text(&dir.join("type")).is_some_and(|t| t == "Battery");
            // A mouse or a pen has a battery too.
            let ours = text(&dir.join("scope")).is_none_or(|s| s != "Device");
            if battery && ours {
                self.powers.push(Power {
                    name: format!("battery {}", file_name(&dir)),
                    meter: Meter::Battery(dir),
                });
            }
        }
    }

    fn add_temp(&mut self, name: String, file: PathBuf) {
        match read(&file) {
            Ok(_) => self.temps.push(Temp { name, file }),
            Err(why) => self.refused.extend(why),
        }
    }

    fn add_power(&mut self, name: String, file: PathBuf, meter: impl FnOnce(PathBuf) -> Meter) {
        match read(&file) {
            Ok(_) => self.powers.push(Power {
                name,
                meter: meter(file),
            }),
            Err(why) => self.refused.extend(why),
        }
    }

    /// Whether a sensor shows power now, or, as it counts energy, will when asked again.
    pub fn shows_power(&mut self) -> bool {
        let counts = |p: &Power| matches!(p.meter, Meter::Energy { .. });
        self.powers.iter().any(counts) || self.power().is_some()
    }

    /// The hottest chip, in degrees Celsius.
    pub fn temperature(&self) -> Option<Reading> {
        let read = |t: &Temp| {
            Some(Reading {
                value: number(&t.file)? / 1e3,
                sensor: t.name.clone(),
            })
        };
        highest(self.temps.iter().filter_map(read))
    }

    /// The largest power any sensor shows, in watts: sensors overlap (a package, the whole machine),
    /// so their sum would count things twice. Sensors that count energy give the mean since they were
    /// last asked, and nothing the first time.
    pub fn power(&mut self) -> Option<Reading> {
        self.power_at(Instant::now())
    }

    fn power_at(&mut self, now: Instant) -> Option<Reading> {
        let read = |p: &mut Power| {
            Some(Reading {
                value: p.meter.watts(now)?,
                sensor: p.name.clone(),
            })
        };
        highest(self.powers.iter_mut().filter_map(read))
    }

    /// Where temperature was looked for, and what was wrong there.
    pub fn looked_for_temperature(&self) -> String {
        self.looked(&[
            "class/thermal/thermal_zone*/temp",
            "class/hwmon/hwmon*/temp*_input",
        ])
    }

    /// Where power was looked for, and what was wrong there.
    pub fn looked_for_power(&self) -> String {
        self.looked(&[
            "class/powercap/intel-rapl:*/energy_uj",
            "class/hwmon/hwmon*/power*_average and power*_input",
            "class/power_supply/*/power_now",
        ])
    }

    fn looked(&self, places: &[&str]) -> String {
        let mut all: Vec<String> = places
            .iter()
            .map(|p| self.root.join(p).display().to_string())
            .collect();
        if !self.refused.is_empty() {
            all.push(format!("unreadable: {}", self.refused.join("; ")));
        }
        all.join(", ")
    }
}

impl Meter {
    fn watts(&mut self, now: Instant) -> Option<f64> {
        match self {
            Meter::Power(file) => Some(number(file)? / 1e6),
            Meter::Energy { file, range, last } => {
                let joules = number(file)? / 1e6;
                let before = last.replace((joules, now))?;
                let seconds = now.duration_since(before.1).as_secs_f64();
                let used = match joules - before.0 {
                    n if n < 0.0 => n + *range / 1e6,
                    n => n,
                };
                (seconds > 0.0 && used.is_finite()).then(|| used / seconds)
            }
            Meter::Battery(dir) => {
                if text(&dir.join("status"))? != "Discharging" {
                    return None;
                }
                let direct = number(&dir.join("power_now")).map(|w| w.abs() / 1e6);
                direct.or_else(|| {
                    let amperes = number(&dir.join("current_now"))?.abs() / 1e6;
                    Some(amperes * number(&dir.join("voltage_now"))? / 1e6)
                })
            }
        }
    }
}

fn highest(all: impl Iterator<Item = Reading>) -> Option<Reading> {
    all.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// A file's trimmed text; an error says which file and why, or nothing where there is no such file
/// or a sensor is asleep.
/// A sensor is a small file; a pipe would not end, and what is no text is no name.
fn read(file: &Path) -> Result<String, Option<String>> {
    let small = || -> std::io::Result<String> {
        if !std::fs::metadata(file)?.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let mut bytes = vec![];
        std::fs::File::open(file)?
            .take(4096)
            .read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let clean = text
            .trim()
            .chars()
            .filter(|c| !c.is_control() || *c == '\n');
        Ok(clean.collect())
    };
    small().map_err(|e| match e.kind() {
        ErrorKind::NotFound => None,
        _ => Some(format!("{}: {e}", file.display())),
    })
}

fn text(file: &Path) -> Option<String> {
    read(file).ok().filter(|t| !t.is_empty())
}

fn number(file: &Path) -> Option<f64> {
    text(file)?.parse().ok().filter(|n: &f64| n.is_finite())
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Entries of a folder that begin so, in order of their names.
fn folders(dir: &Path, begin: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return vec![];
    };
    let mut all: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| file_name(p).starts_with(begin))
        .collect();
    all.sort();
    all
}

/// Names in a folder, sorted.
fn files(dir: &Path) -> Vec<String> {
    folders(dir, "").iter().map(|p| file_name(p)).collect()
}

/// The number between `begin` and `end`.
fn numbered(file: &str, begin: &str, end: &str) -> Option<u32> {
    file.strip_prefix(begin)?.strip_suffix(end)?.parse().ok()
}

/// Resident memory of this process in bytes, where the system says so.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join("class").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        dir
    }

    #[test]
    fn the_hottest_chip_counts_and_a_disk_is_none() {
        let dir = tree(&[
            ("thermal/thermal_zone0/type", "acpitz"),
            ("thermal/thermal_zone0/temp", "41000"),
            ("hwmon/hwmon0/name", "nvme"),
            ("hwmon/hwmon0/temp1_input", "88000"),
            ("hwmon/hwmon1/name", "amdgpu"),
            ("hwmon/hwmon1/temp2_input", "63500"),
            ("hwmon/hwmon1/temp2_label", "junction"),
            ("hwmon/hwmon1/temp2_crit", "110000"),
        ]);
        let mut s = Sensors::open(Some(dir.path()));
        assert!(!s.shows_power());
        let want = Reading {
            value: 63.5,
            sensor: "amdgpu junction".into(),
        };
        assert_eq!(s.temperature(), Some(want));
        let looked = s.looked_for_power();
        assert!(looked.contains("energy_uj") && looked.contains(dir.path().to_str().unwrap()));
    }

    #[test]
    fn power_out_of_energy_chips_and_batteries() {
        let dir = tree(&[
            ("powercap/intel-rapl:0/name", "package-0"),
            ("powercap/intel-rapl:0/energy_uj", "900000"),
            ("powercap/intel-rapl:0/max_energy_range_uj", "1000000"),
            ("powercap/intel-rapl:0:0/energy_uj", "1"),
            ("power_supply/BAT0/type", "Battery"),
            ("power_supply/BAT0/status", "Charging"),
            ("power_supply/BAT0/current_now", "1500000"),
            ("power_supply/BAT0/voltage_now", "12000000"),
            ("power_supply/mouse/type", "Battery"),
            ("power_supply/mouse/scope", "Device"),
            ("power_supply/AC/type", "Mains"),
        ]);
        let mut s = Sensors::open(Some(dir.path()));
        let start = Instant::now();
        let after = |s: &mut Sensors, ms| s.power_at(start + Duration::from_millis(ms));
        let write = |file: &str, text: &str| {
            std::fs::write(dir.path().join("class").join(file), text).unwrap();
        };
        assert_eq!(after(&mut s, 0), None, "energy needs two readings");
        // 0.1 J up to the counter's end, and 0.3 J behind it.
        write("powercap/intel-rapl:0/energy_uj", "300000");
        let reading = after(&mut s, 100).unwrap();
        assert!((reading.value - 4.0).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.sensor, "RAPL package-0");
        write("power_supply/BAT0/status", "Discharging");
        let reading = after(&mut s, 200).unwrap();
        assert_eq!((reading.value, &reading.sensor[..]), (18.0, "battery BAT0"));
    }

    #[test]
    fn broken_files_give_no_reading() {
        let dir = tree(&[("thermal/thermal_zone0/temp", "warm")]);
        let s = Sensors::open(Some(dir.path()));
        assert!(s.temperature().is_none());
        assert!(
            Sensors::open(Some(&dir.path().join("no")))
                .temperature()
                .is_none()
        );
    }
}
