//! From a file in the page cache to the first token, beside a plain read and repack of the same file
//! on all cores: the yardstick of start-up. Every run is a process of its own; the two take turns.
//!
//! `cargo bench --bench load -- [MODEL.gguf [RUNS [CONTEXT]]]`; SmolLM2 out of the cache, 7 runs, and the
//! model's context without.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use rayon::prelude::*;
use tokstep::engine::LoadStage;
use tokstep::gguf::Gguf;
use tokstep::gpu::Gpu;
use tokstep::model::Model;
use tokstep::model::matrix::RowBytes;
use tokstep::{Engine, EngineOptions, GenerateOptions, Result, models};

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["plain", path] => plain(Path::new(path)),
        ["open"] => open(),
        ["load", path, context] => load(Path::new(path), context.parse().ok()),
        _ => compare(&args),
    };
    if let Err(e) = done {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}

/// Rows that are read in one go.
const ROWS: usize = 256;

/// Milliseconds to open the file, read every matrix and repack it into fresh memory, and no more.
fn plain(path: &Path) -> Result<()> {
    let start = Instant::now();
    let model = Model::from_gguf(&Gguf::open(path)?)?;
    for m in model.weights.matrices() {
        let record = m.row_vec4s() * 4;
        let mut out = vec![0u32; m.rows * record];
        out.par_chunks_mut(record * ROWS)
            .enumerate()
            .try_for_each_init(RowBytes::default, |read, (i, out)| -> Result<()> {
                let first = i * ROWS;
                m.read(first..first + out.len() / record, read)?;
                m.repack(first, read, out, &mut vec![0.0; out.len() / record])
            })?;
        std::mem::forget(out); // a load keeps it, too
    }
    println!("plain {:.1}", ms(start));
    println!("plain-cpu {:.1}", cpu_ms());
    Ok(())
}

/// Resident memory of a process that has only opened the device: the driver's own.
fn open() -> Result<()> {
    let gpu = Gpu::open(device().as_deref())?;
    println!("driver {:.1}", peak_mib());
    drop(gpu);
    Ok(())
}

/// A load and the first token after a prompt of one token.
fn load(path: &Path, context: Option<u32>) -> Result<()> {
    let start = Instant::now();
    let options = EngineOptions {
        device: device(),
        context,
        cache: models::pipelines_dir().ok(),
        ..EngineOptions::default()
    };
    // While weights are repacked: wall time and that of the threads, at the first piece and the last.
    let mut span = None;
    let engine = Engine::load(path, &options, &mut |stage| {
        if let LoadStage::Weights { .. } = stage {
            let now = (ms(start), threads_ms());
            span = Some((span.take().map_or(now.clone(), |(first, _)| first), now));
        }
    })?;
    let (loaded, loaded_cpu) = (ms(start), cpu_ms());
    let mut session = engine.session()?;
    session.prefill(&[1])?;
    let one = GenerateOptions {
        max_tokens: Some(1),
        ignore_eos: true,
        ..Default::default()
    };
    session.generate(&one)?.next().transpose()?;
    let first = ms(start);
    let (parts, device) = (&engine.info().load, engine.info().load.device);
    println!("load {loaded:.1}");
    println!("first {first:.1}");
    println!("token {:.1}", first - loaded);
    println!("open {:.1}", parts.open_ms);
    println!("tokenizer {:.1}", parts.tokenizer_ms);
    println!("weights {:.1}", device.weights_ms);
    println!("compile {:.1}", device.compile_ms);
    println!("warm-up {:.1}", device.warm_up_ms);
    println!("load-cpu {loaded_cpu:.1}");
    println!("cpu {:.1}", cpu_ms());
    println!("peak {:.1}", peak_mib());
    if let Some(((wall, then), (wall_end, now))) = span {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let spent = |i: usize| -> f64 {
            let of = |(id, t): (&u32, &[f64; 2])| t[i] - then.get(id).map_or(0.0, |t| t[i]);
            now.iter().map(of).sum::<f64>() / (wall_end - wall) / cores * 100.0
        };
        println!("busy {:.1}", spent(0));
        println!("ready {:.1}", spent(0) + spent(1));
    }
    Ok(())
}

fn compare(args: &[&str]) -> Result<()> {
    let path = match args.first() {
        Some(path) => path.into(),
        None => match models::cached("smollm2")? {
            Some(path) => path,
            None => {
                println!("no model: `tokstep pull smollm2`, or name a file");
                return Ok(());
            }
        },
    };
    let runs = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    let context = args.get(2).copied().unwrap_or("model's");
    let path_text = path.to_string_lossy();
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    // The first round fills the page cache and the driver's, and is not counted.
    for round in 0..=runs {
        for job in [
            &["plain", &path_text][..],
            &["load", &path_text, context],
            &["open"],
        ] {
            for (name, value) in child(job) {
                let known = all.iter().position(|(n, _)| *n == name);
                let at = known.unwrap_or_else(|| {
                    all.push((name, Vec::new()));
                    all.len() - 1
                });
                if round > 0 {
                    all[at].1.push(value);
                }
            }
        }
    }
    let mut median = |name: &str| {
        let found = all.iter_mut().find(|(n, _)| n == name);
        found.map_or(f64::NAN, |(_, v)| {
            v.sort_by(f64::total_cmp);
            v[v.len() / 2]
        })
    };
    let file = std::fs::metadata(&path).map_or(0.0, |m| m.len() as f64) / f64::from(1 << 20);
    println!("{path_text}, {file:.1} MiB, context {context}, medians of {runs}");
    let (plain, plain_cpu) = (median("plain"), median("plain-cpu"));
    println!("plain read and repack on all cores  {plain:8.1} ms");
    println!("  its CPU time                      {plain_cpu:8.1} ms");
    for (name, what) in [
        ("open", "  file read, device opened, planned"),
        ("weights", "  weights on the device after that"),
        ("compile", "  pipelines, beside the weights"),
        ("tokenizer", "  tokenizer, beside all"),
        ("warm-up", "  warm-up, after all of these"),
        ("load", "loaded"),
        ("token", "a prompt of one token"),
        ("first", "first token, load included"),
    ] {
        let value = median(name);
        println!("{what:36}{value:8.1} ms  {:5.2} x plain", value / plain);
    }
    for (name, what) in [
        ("load-cpu", "CPU time until loaded"),
        ("cpu", "  until the first token"),
    ] {
        let value = median(name);
        println!(
            "{what:36}{value:8.1} ms  {:5.2} x plain's",
            value / plain_cpu
        );
    }
    let (busy, ready) = (median("busy"), median("ready"));
    println!("cores busy while repacking          {busy:8.1} %");
    println!("  threads that run or could run     {ready:8.1} %, of one for each core");
    let (peak, driver) = (median("peak"), median("driver"));
    for (what, value) in [
        ("peak resident memory", peak),
        ("  of a process with a device only", driver),
        ("  the rest", peak - driver),
    ] {
        println!("{what:36}{value:8.1} MiB {:5.2} x file", value / file);
    }
    Ok(())
}

/// Runs this program with other arguments; what it measured.
fn child(args: &[&str]) -> Vec<(String, f64)> {
    let me = std::env::current_exe().expect("the path of this program");
    let out = Command::new(me).args(args).output().expect("a process");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    let lines = text.lines().filter_map(|l| l.split_once(' '));
    lines
        .filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?)))
        .collect()
}

fn device() -> Option<String> {
    std::env::var("TOKSTEP_DEVICE").ok()
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// CPU time of this process in ms, in steps of 10 (Linux counts hundredths of a second here); not a
/// number where there is no /proc.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the second, a name in brackets, may hold spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<f64>> = ticks.map(|t| t.parse().ok()).collect();
    let ticks = ticks.filter(|t| t.len() == 2);
    ticks.map_or(f64::NAN, |t| 10.0 * (t[0] + t[1]))
}

/// Milliseconds each living thread has run, and has waited for a core while it could have run.
fn threads_ms() -> HashMap<u32, [f64; 2]> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let of = |t: std::fs::DirEntry| {
        let id = t.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(t.path().join("schedstat")).ok()?;
        let mut ns = text.split(' ').map(|n| n.parse::<f64>().unwrap_or(0.0));
        Some((id, [ns.next()? / 1e6, ns.next()? / 1e6]))
    };
    threads.flatten().filter_map(of).collect()
}

/// Most memory this process had resident, in MiB; not a number where there is no /proc.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.map_or(f64::NAN, |k| k / 1024.0)
}
