//! `tokstep bench` on tiny models: rows in every format, whether their figures agree with each other,
//! what `--explain`, `--plot` and `--log` leave behind, and files that cannot be written.

#[path = "common/cli.rs"]
mod cli;
mod common;

use cli::{answer, fails, stderr, tokstep};
use common::{Limits, case, gpu_trial, gpu_trial_but_for};
use serde_json::Value;
use std::collections::BTreeSet;

const CHATML: &str = "cases/scripted/scripted_chatml.gguf";
/// Seven layers, six of them with a window of 8 positions.
const GEMMA: &str = "cases/models/gemma3_q4_0.gguf";

fn file(path: &str) -> String {
    case(path).to_str().unwrap().to_owned()
}

fn number(row: &Value, key: &str) -> f64 {
    let n = row[key].as_f64();
    n.unwrap_or_else(|| panic!("no number {key} in {row}"))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * a.abs().max(b.abs())
}

fn json(args: &[&str]) -> Vec<Value> {
    let all = [&["bench"], args, &["-o", "json"]].concat();
    serde_json::from_str(&answer(&all)).unwrap()
}

fn bench_in_every_format() {
    let model = file(CHATML);
    let bench = |format| {
        let args = [
            "bench", "-m", &model, "-p", "5", "-n", "3", "-d", "0,7", "-r", "1", "-o",
        ];
        answer(&[&args[..], &[format]].concat())
    };
    let names = ["pp5", "tg3", "pp5 @ d7", "tg3 @ d7"];
    let rows: Vec<Value> = serde_json::from_str(&bench("json")).unwrap();
    assert_eq!(
        rows.iter()
            .map(|r| r["test"].as_str().unwrap())
            .collect::<Vec<_>>(),
        names
    );
    assert!(
        rows.iter().all(|r| r["avg_ts"].as_f64().unwrap() > 0.0),
        "{rows:?}"
    );
    for (row, line) in rows.iter().zip(bench("jsonl").lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            line.as_object()
                .unwrap()
                .keys()
                .eq(row.as_object().unwrap().keys())
        );
    }
    let csv = bench("csv");
    let cells = |line: &str| line.split(',').count();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    assert!(
        csv.lines()
            .skip(1)
            .all(|l| l.starts_with('"') && l.ends_with('"'))
    );
    // The device's name has a comma in it, or not: as many cells more in every line.
    assert!(
        csv.lines()
            .skip(1)
            .all(|l| cells(l) >= cells(csv.lines().next().unwrap()))
    );
    let md = bench("md");
    let (table, foot) = md.split_once("\n\n").unwrap();
    let bars: Vec<usize> = table.lines().map(|l| l.matches('|').count()).collect();
    assert!(
        bars.len() == 6 && bars.iter().all(|&n| n == bars[0]),
        "{md}"
    );
    assert!(md.lines().all(|l| l.chars().count() <= 180), "{md}");
    assert!(foot.contains("GB/s") && foot.contains("GFLOP/s"), "{md}");
}

/// What is derived is derived from what stands beside it.
fn figures_agree() {
    let model = file(CHATML);
    let rows = json(&["-m", &model, "-p", "9", "-n", "4", "-d", "0,20", "-r", "2"]);
    for row in &rows {
        let rate = number(row, "avg_ts");
        let tokens = number(row, "n_prompt") + number(row, "n_gen");
        let samples = row["samples_ns"].as_array().unwrap();
        let rates = samples.iter().map(|ns| tokens / ns.as_f64().unwrap() * 1e9);
        assert!(
            near(rate, rates.sum::<f64>() / samples.len() as f64),
            "{row}"
        );
        assert!(near(number(row, "ms_per_token"), 1e3 / rate), "{row}");
        let flops = number(row, "flops_per_token") * rate;
        let peak = number(row, "peak_gflop_per_s") * 1e9;
        assert!(
            near(number(row, "percent_of_peak"), 100.0 * flops / peak),
            "{row}"
        );
        if number(row, "n_gen") == 0.0 {
            assert!(
                row["percent_of_copy"].is_null() && row["step_ms_p50"].is_null(),
                "{row}"
            );
            continue;
        }
        let (weights, kv) = ("weight_bytes_per_token", "kv_bytes_per_token");
        let bytes = number(row, "bytes_per_token");
        assert!(near(bytes, number(row, weights) + number(row, kv)), "{row}");
        let copied = bytes * rate / (number(row, "copy_gb_per_s") * 1e9) * 100.0;
        assert!(near(number(row, "percent_of_copy"), copied), "{row}");
        let latencies = ["p50", "p95", "p99", "max"].map(|p| number(row, &format!("step_ms_{p}")));
        assert!(latencies.is_sorted() && latencies[0] > 0.0, "{row}");
        for part in ["record", "submit", "wait", "readback", "cpu"] {
            assert!(
                number(row, &format!("host_{part}_us")) > 0.0,
                "{part} in {row}"
            );
        }
        let dispatches = number(row, "dispatches_per_step");
        let each = number(row, "host_cpu_us") / dispatches;
        assert!(near(number(row, "host_cpu_us_per_dispatch"), each), "{row}");
        // A sequence of one token, then of twenty: steps see 2 to 5 and 21 to 24 positions.
        let mean = number(row, "n_depth").max(1.0) + 2.5;
        let first = rows.iter().find(|r| r["n_depth"] == 0 && r["n_gen"] == 4);
        let at_first = number(first.unwrap(), kv) / 3.5;
        assert!(near(number(row, kv), at_first * mean), "{row}");
    }
}

/// A layer with a window reads no more than that.
fn windows_bound_the_cache() {
    let model = file(GEMMA);
    let at = |depth: &str| {
        let rows = json(&["-m", &model, "-p", "0", "-n", "1", "-d", depth, "-r", "1"]);
        number(&rows[0], "kv_bytes_per_token")
    };
    let layer = at("1") / 2.0 / 7.0; // of one position
    assert!(layer > 0.0);
    assert_eq!(at("40"), layer * (41.0 + 6.0 * 8.0));
    assert_eq!(at("80"), layer * (81.0 + 6.0 * 8.0));
}

/// Sequences share the weights of a step, and each has its own cache. Nine are more than a tile of
/// columns.
fn sequences_side_by_side() {
    let model = file(CHATML);
    let args = [
        "-m",
        &model,
        "-p",
        "3",
        "-n",
        "5",
        "-r",
        "1",
        "--parallel",
        "1,3,9",
    ];
    let rows = json(&args);
    let names: Vec<_> = rows.iter().map(|r| r["test"].as_str().unwrap()).collect();
    assert_eq!(names, ["pp3", "tg5", "tg5 x3", "tg5 x9"]);
    let (one, three) = (&rows[1], &rows[2]);
    let (w, kv) = ("weight_bytes_per_token", "kv_bytes_per_token");
    assert!(near(number(one, w), 3.0 * number(three, w)));
    assert_eq!(number(one, kv), number(three, kv));
    let ns = three["samples_ns"][0].as_f64().unwrap();
    assert!(near(number(three, "avg_ts"), 15.0 / ns * 1e9), "{three}");
}

fn explain_plot_and_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (model, svg, log) = (file(CHATML), path("a b.svg"), path("runs.jsonl"));
    let args = [
        "bench",
        "-m",
        &model,
        "-p",
        "4",
        "-n",
        "6",
        "-d",
        "0,7",
        "-r",
        "2",
        "--explain",
        "--plot",
        &svg,
        "--log",
        &log,
    ];
    for run in 1..=2 {
        let o = tokstep(&args, b"");
        let err = stderr(&o);
        assert!(o.status.success(), "{err}");
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().count(), run, "{text}");
        assert!(text.ends_with('\n'));
        if run == 1 {
            explained(&err);
        }
    }
    let text = std::fs::read_to_string(&log).unwrap();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            line["flags"]
                .as_array()
                .unwrap()
                .contains(&"--explain".into())
        );
        let bytes = std::fs::read(&model).unwrap();
        assert_eq!(line["files"][0]["bytes"], bytes.len());
        assert_eq!(line["files"][0]["sha256"], sha256(&bytes));
        let types = line["types"].as_object().unwrap();
        let weights: u64 = types.values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(line["n_params"], weights);
        let rows = line["rows"].as_array().unwrap();
        let names: BTreeSet<_> = rows.iter().map(|r| r["test"].as_str().unwrap()).collect();
        let want = ["pp4", "tg6", "pp4 @ d7", "tg6 @ d7"];
        assert_eq!(names, want.into());
        for key in ["copy_gb_per_s", "peak_gflop_per_s", "load_ms"] {
            assert!(number(&line, key) > 0.0, "{key}");
        }
        for key in [
            "date", "version", "device", "backend", "driver", "model", "arch", "os",
        ] {
            assert!(!line[key].as_str().unwrap().is_empty(), "{key}");
        }
    }
    let svg = std::fs::read_to_string(&svg).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
        "{svg}"
    );
    // A line for every repetition of two tests.
    assert_eq!(svg.matches("stroke-width=\"2\"").count(), 4, "{svg}");
    for text in ["tg6", "tg6 @ d7", "decode step", "ms per decode step"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
}

/// A table by kernel whose shares are a whole, losses in words, the host's part: at two depths.
fn explained(err: &str) {
    assert_eq!(err.matches("The host's part, per step").count(), 2, "{err}");
    for words in [
        "encode ",
        "submit ",
        "wait ",
        "readback ",
        "us per dispatch",
        "stands empty",
    ] {
        assert!(err.contains(words), "no {words:?} in {err}");
    }
    if err.contains("has no timestamps") {
        return; // some devices do not
    }
    assert!(
        err.contains("after 1 positions") && err.contains("after 7 positions"),
        "{err}"
    );
    assert_eq!(err.matches("The largest losses:").count(), 2, "{err}");
    assert_eq!(err.matches("the step would be").count(), 6, "{err}");
    let table = err.split("The largest losses:").next().unwrap();
    let cells = |l: &str| {
        l.split('|')
            .map(|c| c.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let lines: Vec<_> = table
        .lines()
        .filter(|l| l.starts_with("| "))
        .map(cells)
        .collect();
    let (all, lines) = lines.split_last().unwrap();
    assert_eq!(all[1], "all");
    let column = |i: usize| lines.iter().filter_map(move |l| l[i].parse::<f64>().ok());
    assert!((column(5).sum::<f64>() - 100.0).abs() < 1.0, "{err}");
    assert_eq!(
        column(2).sum::<f64>(),
        all[2].parse::<f64>().unwrap(),
        "{err}"
    );
    assert!(
        table.contains("rope_kv") && table.contains("attention"),
        "{err}"
    );
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(bytes);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// Said before anything is measured, with the file's name.
fn files_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let lost = dir.path().join("no/such/folder/x");
    let model = file(CHATML);
    for flag in ["--log", "--plot"] {
        for path in [folder, lost.to_str().unwrap()] {
            let args = ["bench", "-m", &model, "-p", "0", "-n", "1", flag, path];
            fails(&args, b"", &[path]);
        }
    }
    let svg = dir.path().join("x.svg");
    let args = [
        "bench",
        "-m",
        &model,
        "-p",
        "4",
        "-n",
        "0",
        "--plot",
        svg.to_str().unwrap(),
    ];
    fails(&args, b"", &["--plot", "-n"]);
    assert!(!svg.exists());
}

/// Products alone, without any model file: which ones, and whether their figures agree.
fn kernels() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.jsonl").to_str().unwrap().to_owned();
    let args = [
        "bench",
        "--kernels",
        "--shapes",
        "smollm2-135m",
        "--types",
        "q4_0",
        "--columns",
        "1,20",
        "-r",
        "2",
        "--log",
        &log,
    ];
    let rows: Vec<Value> =
        serde_json::from_str(&answer(&[&args[..], &["-o", "json"]].concat())).unwrap();
    let named = |r: &Value| format!("{} {}", r["product"].as_str().unwrap(), r["columns"]);
    let want = [
        "attn_q+k+v 1",
        "attn_q+k+v 20",
        "attn_output 1",
        "attn_output 20",
        "ffn_gate+up 1",
        "ffn_gate+up 20",
        "ffn_down 1",
        "ffn_down 20",
        "output 1",
    ];
    assert_eq!(rows.iter().map(named).collect::<Vec<_>>(), want);
    for row in &rows {
        let n = |key| number(row, key);
        let s = n("us") / 1e6;
        assert!(s > 0.0 && near(n("gb_per_s"), n("weight_bytes") / s / 1e9));
        assert!(near(n("flops"), 2.0 * n("k") * n("rows") * n("columns")));
        assert!(near(n("gflop_per_s"), n("flops") / s / 1e9), "{row}");
        assert!(n("weight_bytes") > n("k") * n("rows") / 2.0, "{row}");
    }
    let line = std::fs::read_to_string(&log).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["kernels"], Value::from(rows.clone()));
    for row in &rows {
        let copied = 100.0 * number(row, "gb_per_s") / number(&line, "copy_gb_per_s");
        assert!(near(number(row, "percent_of_copy"), copied), "{row}");
        let reached = 100.0 * number(row, "gflop_per_s") / number(&line, "peak_gflop_per_s");
        assert!(near(number(row, "percent_of_peak"), reached), "{row}");
    }
    // A table for people has a line for each and is as wide as its head.
    let md = answer(&[&args[..6], &["--columns", "1", "-r", "1"]].concat());
    let (table, foot) = md.split_once("\n\n").unwrap();
    let widths: Vec<usize> = table.lines().map(|l| l.chars().count()).collect();
    assert!(widths.len() == 7 && widths.iter().all(|w| *w == widths[0]));
    assert!(foot.contains("GB/s"), "{md}");
    fails(
        &["bench", "--kernels", "--types", "q9_9"],
        b"",
        &["q9_9", "q4_k_m"],
    );
    for wrong in [
        &["bench", "--kernels", "-m", "x"][..],
        &["bench", "--kernels", "-p", "3"],
        &["bench", "-m", "x", "--types", "f16"],
    ] {
        let o = tokstep(wrong, b"");
        assert_eq!(o.status.code(), Some(2), "{wrong:?}: {}", stderr(&o));
    }
}

fn main() {
    common::run(vec![
        gpu_trial("bench_in_every_format", bench_in_every_format),
        gpu_trial("figures_agree", figures_agree),
        gpu_trial("windows_bound_the_cache", windows_bound_the_cache),
        gpu_trial("sequences_side_by_side", sequences_side_by_side),
        gpu_trial("explain_plot_and_log", explain_plot_and_log),
        gpu_trial_but_for(
            Limits::Low,
            "the logits of twenty columns are no binding",
            "kernels",
            kernels,
        ),
        gpu_trial("files_that_cannot_be_written", files_that_cannot_be_written),
    ]);
}
