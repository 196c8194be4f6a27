//! Long runs and limits: `bench --sustain` in every format with sensors out of a fake `/sys`, and the
//! governor that idles: over an engine whose sensor heats and cools, and through the binary.

#[path = "common/cli.rs"]
mod cli;
mod common;

use cli::{answer, command, fails, object, stderr, tokstep};
use common::{case, gpu_trial, trial};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, PaceOptions, SampleOptions};

const MODEL: &str = "cases/models/llama_q8_0.gguf";

fn file(path: &str) -> String {
    case(path).to_str().unwrap().to_owned()
}

/// Writes a file below the fake `/sys`.
fn sensor(root: &Path, file: &str, text: &str) {
    let path = root.join("class").join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A reader must never find half a file.
    let new = path.with_extension("new");
    std::fs::write(&new, format!("{text}\n")).unwrap();
    std::fs::rename(&new, &path).unwrap();
}

const ZONE: &str = "thermal/thermal_zone0/temp";
const GPU_POWER: &str = "hwmon/hwmon0/power1_average";

fn tree(celsius: f64, watts: f64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sensor(dir.path(), "thermal/thermal_zone0/type", "x86_pkg_temp");
    sensor(dir.path(), ZONE, &format!("{:.0}", celsius * 1e3));
    sensor(dir.path(), "hwmon/hwmon0/name", "amdgpu");
    sensor(dir.path(), GPU_POWER, &format!("{:.0}", watts * 1e6));
    dir
}

/// `n` tokens, the likeliest each.
fn greedy(n: usize) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(n as u32),
        sample: SampleOptions {
            temp: 0.0,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

fn below_80(sys: &Path) -> PaceOptions {
    PaceOptions {
        temp_limit: Some(80.0),
        sensors: Some(sys.into()),
        ..PaceOptions::default()
    }
}

fn number(v: &Value, key: &str) -> f64 {
    let n = v[key].as_f64();
    n.unwrap_or_else(|| panic!("no number {key} in {v}"))
}

/// Windows are whole laps, follow each other, and add up to the summary; log and plot hold the same.
fn windows_add_up() {
    let sys = tree(61.0, 12.5);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (log, svg, model) = (at("log.jsonl"), at("plot.svg"), file(MODEL));
    let sys = sys.path().to_str().unwrap();
    let args = [
        "bench",
        "-m",
        &model,
        "--sustain",
        "0.03",
        "-n",
        "16",
        "-d",
        "5",
        "--sensors",
        sys,
        "--log",
        &log,
        "--plot",
        &svg,
        "-o",
        "json",
    ];
    let all = object(&args);
    let (windows, summary) = (all["windows"].as_array().unwrap(), &all["summary"]);
    assert!(windows.len() > 1 && number(summary, "windows") == windows.len() as f64);
    let mut end = 0.0;
    for (i, w) in windows.iter().enumerate() {
        assert_eq!(w["window"], i + 1);
        assert_eq!(number(w, "from_s"), end);
        end = number(w, "to_s");
        assert_eq!(number(w, "tokens"), number(w, "laps") * 16.0);
        let rate = number(w, "tokens") / (end - number(w, "from_s"));
        assert!((number(w, "avg_ts") / rate - 1.0).abs() < 1e-9);
        assert!(number(w, "step_ms_p50") <= number(w, "step_ms_p99"));
        assert!(number(w, "step_ms_p99") <= number(w, "step_ms_max"));
        assert!(number(w, "device_bytes") > 0.0 && w["idle_s"] == 0.0);
    }
    assert!(end >= 1.8 && end == number(summary, "seconds"), "{summary}");
    let sum = |key| windows.iter().map(|w| number(w, key)).sum::<f64>();
    assert_eq!(sum("tokens"), number(summary, "tokens"));
    let (first, last) = (&windows[0], &windows[windows.len() - 1]);
    let percent = number(last, "avg_ts") / number(first, "avg_ts") * 100.0;
    assert!((number(summary, "last_percent_of_first") / percent - 1.0).abs() < 1e-9);
    assert_eq!(first["temp_c"], 61.0);
    assert_eq!(first["temp_sensor"], "x86_pkg_temp");
    assert_eq!(first["power_w"], 12.5);
    assert_eq!(first["power_sensor"], "amdgpu power1");
    assert_eq!(summary["max_temp_c"], 61.0);
    if cfg!(target_os = "linux") {
        assert!(number(first, "resident_bytes") > 1e6);
        assert!(number(summary, "resident_growth_bytes") < 5e6, "{summary}");
    }
    // A line for every window, as it ended, and one for the whole run.
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let (run, logged) = lines.split_last().unwrap();
    assert_eq!(logged.len(), windows.len());
    for (line, w) in logged.iter().zip(windows) {
        assert_eq!(
            (&line["kind"], &line["run"]),
            (&"window".into(), &run["run"])
        );
        for (key, value) in w.as_object().unwrap() {
            assert_eq!(&line[key], value, "{key}");
        }
    }
    assert_eq!(
        (&run["kind"], &run["sustain"]),
        (&"summary".into(), summary)
    );
    let svg = std::fs::read_to_string(&svg).unwrap();
    for text in ["tg16 @ d5 sustained", "tokens per second", "hottest chip"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
}

/// The other formats, and two sequences in a step.
fn formats() {
    let (model, sys) = (file(MODEL), tree(50.0, 1.0));
    let sys = sys.path().to_str().unwrap();
    let args = [
        "bench",
        "-m",
        &model,
        "--sustain",
        "0.01",
        "-n",
        "8",
        "--parallel",
        "2",
        "--sensors",
        sys,
        "-o",
    ];
    let with = |format| answer(&[&args[..], &[format]].concat());
    let md = with("md");
    assert!(md.contains("| window |") && md.contains("last window against the first"));
    assert!(md.contains("at most 50.0 °C (x86_pkg_temp)"), "{md}");
    let jsonl = with("jsonl");
    let lines: Vec<Value> = jsonl
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let (summary, windows) = lines.split_last().unwrap();
    assert_eq!(summary["summary"]["parallel"], 2);
    assert!(
        windows
            .iter()
            .all(|w| number(w, "tokens") == number(w, "laps") * 16.0)
    );
    assert!(with("csv").starts_with("window,from_s,"));
}

/// An hour's run told to end: the summary of what there was.
fn ctrl_c_ends_with_the_summary() {
    let model = file(MODEL);
    let args = [
        "bench",
        "-m",
        &model,
        "--sustain",
        "60",
        "--window",
        "0.2",
        "-o",
        "jsonl",
    ];
    let mut child = command(&args).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let first: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(first["window"], 1);
    let kill = ["-INT", &child.id().to_string()];
    let killed = std::process::Command::new("kill").args(kill).status();
    assert!(killed.unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!(last["summary"]["interrupted"], true);
}

/// What is read from a sensor decides: nothing is idled below the limit, most of the time above it, and
/// when it cools nothing again. The tokens are the same throughout.
fn a_limit_is_held_and_speed_recovers() {
    let sys = tree(40.0, 5.0);
    let o = EngineOptions {
        device: common::device(),
        pace: below_80(sys.path()),
        ..EngineOptions::default()
    };
    let engine = Engine::load(&case(MODEL), &o, &mut |_| ()).unwrap();
    let answer = |celsius: f64| {
        sensor(sys.path(), ZONE, &format!("{:.0}", celsius * 1e3));
        // Sensors are not read more often than that.
        std::thread::sleep(std::time::Duration::from_millis(60));
        let before = engine.pace().unwrap();
        let mut session = engine.session().unwrap();
        session.prefill(&[1, 2, 3]).unwrap();
        let mut answer = session.generate(&greedy(24)).unwrap();
        let pieces: Vec<_> = answer.by_ref().map(|p| p.unwrap().ids).collect();
        let stats = answer.stats().clone();
        let now = engine.pace().unwrap();
        let (idle, busy) = (now.idle() - before.idle(), now.busy_s - before.busy_s);
        assert!(stats.idle_ms <= idle * 1e3 + 1e-6, "{stats:?}");
        (pieces.concat(), idle / (idle + busy))
    };
    let (cold, share) = answer(40.0);
    assert_eq!(share, 0.0);
    let (hot, share) = answer(90.0);
    assert!(share > 0.8, "13 degrees above what is held: {share}");
    let (cooled, share) = answer(41.0);
    assert_eq!(share, 0.0, "speed recovers at once");
    assert_eq!((&hot, &cooled), (&cold, &cold));
    let report = engine.pace().unwrap();
    assert_eq!(report.hottest.unwrap().value, 90.0);
    // A sensor that goes away is told, and not taken for cold.
    std::fs::remove_file(sys.path().join("class").join(ZONE)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let mut session = engine.session().unwrap();
    session.prefill(&[1, 2, 3]).unwrap();
    let lost = session.generate(&GenerateOptions::default());
    let lost = lost.err().expect("an error").to_string();
    assert!(
        lost.contains("--temp-limit") && lost.contains("thermal_zone"),
        "{lost}"
    );
}

/// A sensor that goes away in the middle ends the answers that would go on without it, none of whose tokens
/// are lost: taken up again they are what they would have been.
fn a_sensor_that_goes_away_costs_no_token() {
    let sys = tree(40.0, 5.0);
    let o = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        slots: 2,
        context: Some(256),
        pace: below_80(sys.path()),
        ..EngineOptions::default()
    };
    let engine = Engine::load(&case(MODEL), &o, &mut |_| ()).unwrap();
    let run = |vanish: bool| {
        let (mut a, mut b) = (engine.session().unwrap(), engine.session().unwrap());
        a.prefill(&[1, 2, 3]).unwrap();
        b.prefill(&[4, 5]).unwrap();
        let mut ids = [Vec::new(), Vec::new()];
        let mut answers = [
            a.generate(&greedy(40)).unwrap(),
            b.generate(&greedy(40)).unwrap(),
        ];
        for _ in 0..12 {
            for (ids, answer) in ids.iter_mut().zip(&mut answers) {
                ids.extend(answer.next().unwrap().unwrap().ids);
            }
        }
        if vanish {
            std::fs::remove_file(sys.path().join("class").join(ZONE)).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(60));
            for (ids, answer) in ids.iter_mut().zip(&mut answers) {
                let error = answer.by_ref().find_map(|piece| match piece {
                    Ok(piece) => {
                        ids.extend(piece.ids);
                        None
                    }
                    Err(e) => Some(e.to_string()),
                });
                let error = error.expect("an error");
                assert!(error.contains("--temp-limit"), "{error}");
                assert!(ids.len() < 40, "{ids:?}");
            }
            sensor(sys.path(), ZONE, "40000");
        }
        drop(answers);
        for (ids, session) in ids.iter_mut().zip([&mut a, &mut b]) {
            let rest = session.generate(&greedy(40 - ids.len())).unwrap();
            ids.extend(rest.flat_map(|piece| piece.unwrap().ids));
        }
        ids
    };
    let right = run(false);
    assert_eq!(right.each_ref().map(Vec::len), [40, 40]);
    assert_eq!(run(true), right);
}

/// Never more tokens per second than asked for; the same tokens; what was done is told.
fn speed_limit() {
    let model = file(MODEL);
    let args = [
        "run",
        "-m",
        &model,
        "--prompt-tokens",
        "1,2",
        "-n",
        "12",
        "--temp",
        "0",
        "--ignore-eos",
        "--json",
    ];
    let free = object(&args);
    assert!(free.get("pace").is_none());
    let paced = object(&[&args[..], &["--max-tps", "40"]].concat());
    assert_eq!(paced["tokens"], free["tokens"]);
    let pace = &paced["pace"];
    assert_eq!(pace["max_tps"], 40.0);
    assert!(number(pace, "idle_s") > 0.0 && number(pace, "idle_share") > 0.0);
    assert_eq!(pace["idle_s"], pace["idle_s_for"]["max_tps"]);
    let rate = number(&paced["timings"], "predicted_per_second");
    // The answer's clock is another one than the governor's, and starts a moment later.
    assert!(rate > 0.0 && rate <= 42.0, "{rate}");
    let o = tokstep(&[&args[..], &["--max-tps", "100", "-v"]].concat(), b"");
    assert!(stderr(&o).contains("pace: idled"), "{}", stderr(&o));
}

/// A limit that nothing can watch is an error, before a model is loaded.
fn limits_without_sensors() {
    let (dir, model) = (tempfile::tempdir().unwrap(), file(MODEL));
    let sys = dir.path().to_str().unwrap();
    for (flag, place) in [
        ("--temp-limit", "thermal_zone"),
        ("--power-limit", "intel-rapl"),
    ] {
        for command in ["run", "bench"] {
            let mut args = vec![command, "-m", &model, flag, "50", "--sensors", sys];
            if command == "run" {
                args.extend(["-p", "x"]);
            }
            fails(&args, b"", &[flag, place, sys, "--sensors"]);
        }
    }
    let list = ["bench", "-m", &model, "--sustain", "1", "-d", "0,5"];
    fails(&list, b"", &["-d", "--sustain"]);
    for wrong in [
        &["bench", "-m", "x", "--sustain", "0"][..],
        &["bench", "-m", "x", "--sustain", "1", "-r", "2"],
        &["bench", "-m", "x", "--window", "5"],
        &["run", "-m", "x", "--max-tps", "0"],
        &["run", "-m", "x", "--temp-limit", "hot"],
        &["chat", "-m", "x", "--power-limit", "-3"],
    ] {
        let o = tokstep(wrong, b"");
        assert_eq!(o.status.code(), Some(2), "{wrong:?}: {}", stderr(&o));
    }
}

fn main() {
    common::run(vec![
        gpu_trial("windows_add_up", windows_add_up),
        gpu_trial("formats", formats),
        gpu_trial("ctrl_c_ends_with_the_summary", ctrl_c_ends_with_the_summary),
        gpu_trial(
            "a_limit_is_held_and_speed_recovers",
            a_limit_is_held_and_speed_recovers,
        ),
        gpu_trial(
            "a_sensor_that_goes_away_costs_no_token",
            a_sensor_that_goes_away_costs_no_token,
        ),
        gpu_trial("speed_limit", speed_limit),
        trial("limits_without_sensors", limits_without_sensors),
    ]);
}
