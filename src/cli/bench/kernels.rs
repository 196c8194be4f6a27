//! `tokstep bench --kernels`: every matrix product of some models timed alone, by weight type, shape and
//! number of columns, without a model's file.

use super::measure::Yardsticks;
use super::row::Row;
use super::{BenchArgs, Format, log, row, table};
use crate::cli::{out, progress, stats};
use serde_json::{Value, json};
use tokstep::engine::{KernelBench, KernelTime};
use tokstep::{Result, models, synth};

pub fn run(args: &BenchArgs) -> Result<()> {
    let log = args.log.as_deref().map(log::Log::open).transpose()?;
    let named = |model: &str, ty: &str| format!("{model}:{ty}");
    let all: Vec<String> = args
        .shapes
        .iter()
        .flat_map(|model| args.types.iter().map(move |ty| named(model, ty)))
        .collect();
    // Wrong names show before anything is measured.
    let mut total = 0;
    let all = all
        .into_iter()
        .map(|name| {
            let gguf = synth::open(&name)?;
            total += KernelBench::count(&gguf, &super::once(&args.columns))?;
            Ok((name, gguf))
        })
        .collect::<Result<Vec<_>>>()?;
    let cache = models::pipelines_dir().ok();
    let bench = KernelBench::open(
        args.model.device(),
        cache.as_deref(),
        args.model.limits(),
        None,
    )?;
    let yard = Yardsticks {
        copy: bench.copy_bandwidth()?,
        peak: bench.peak_flops()?,
    };
    let bar = progress::count("", total as u64);
    let mut rows: Vec<Row> = Vec::new();
    for (name, gguf) in &all {
        bar.set_message(name.clone());
        bench.run(
            gguf,
            &super::once(&args.columns),
            args.repetitions,
            &mut |time| {
                bar.inc(1);
                let row = kernel_row(name, &time, yard);
                bar.suspend(|| print(args.output, &row, rows.is_empty()))?;
                rows.push(row);
                Ok(())
            },
        )?;
    }
    bar.finish_and_clear();
    match args.output {
        Format::Md => out::line(foot(&bench, yard))?,
        Format::Json => {
            out::line(serde_json::to_string_pretty(&rows).expect("strings and numbers"))?
        }
        _ => {}
    }
    match log {
        Some(mut log) => log.append(&log_line(&bench, yard, &rows)),
        None => Ok(()),
    }
}

/// A product with all its fields; rates are of the median time.
fn kernel_row(model: &str, t: &KernelTime, yard: Yardsticks) -> Row {
    let ns = stats::percentile(&t.ns, 50.0).unwrap_or(f64::NAN);
    let (read, flops) = (t.bytes as f64 / ns * 1e9, t.flops as f64 / ns * 1e9);
    row::object(json!({
        "model": model,
        "product": t.product,
        "type": t.ty,
        "k": t.k,
        "rows": t.rows,
        "columns": t.columns,
        "kernel": t.kernel,
        "dispatches": t.dispatches,
        "weight_bytes": t.bytes,
        "flops": t.flops,
        "us": ns / 1e3,
        "us_stddev": stats::deviation(&t.ns) / 1e3,
        "gb_per_s": read / 1e9,
        "percent_of_copy": 100.0 * read / yard.copy,
        "gflop_per_s": flops / 1e9,
        "percent_of_peak": 100.0 * flops / yard.peak,
    }))
}

fn log_line(bench: &KernelBench, yard: Yardsticks, rows: &[Row]) -> Value {
    let mut line = log::head(bench.device());
    line.extend(row::object(json!({
        "timestamps": bench.has_timestamps(),
        "copy_gb_per_s": yard.copy / 1e9,
        "peak_gflop_per_s": yard.peak / 1e9,
        "kernels": rows,
    })));
    line.into()
}

/// Columns of the table: head, field, width (negative: text, to the left), digits behind the point.
const COLUMNS: [(&str, &str, i32, usize); 12] = [
    ("model", "model", -21, 0),
    ("product", "product", -12, 0),
    ("type", "type", -5, 0),
    ("k", "k", 6, 0),
    ("rows", "rows", 7, 0),
    ("cols", "columns", 4, 0),
    ("kernel", "kernel", -16, 0),
    ("us", "us", 10, 1),
    ("GB/s", "gb_per_s", 8, 2),
    ("% copy", "percent_of_copy", 6, 1),
    ("GFLOP/s", "gflop_per_s", 9, 1),
    ("% peak", "percent_of_peak", 6, 1),
];

fn print(format: Format, row: &Row, first: bool) -> Result<()> {
    match format {
        Format::Md => {
            if first {
                out::line(md_line(COLUMNS.map(|c| c.0.to_owned())))?;
                let rule = |c: (&str, &str, i32, usize)| match c.2 {
                    w if w < 0 => "-".repeat(-w as usize),
                    w => format!("{}:", "-".repeat(w as usize - 1)),
                };
                out::line(md_line(COLUMNS.map(rule)))?;
            }
            let cell = |(_, field, _, digits): (&str, &str, i32, usize)| match &row[field] {
                Value::String(s) => s.clone(),
                v => format!("{:.digits$}", v.as_f64().unwrap_or(f64::NAN)),
            };
            out::line(md_line(COLUMNS.map(cell)))
        }
        Format::Csv => {
            if first {
                out::line(table::csv_head(row))?;
            }
            out::line(table::csv(row))
        }
        Format::Jsonl => out::line(json!(row)),
        Format::Json => Ok(()),
    }
}

fn md_line(cells: [String; COLUMNS.len()]) -> String {
    let cell = |(text, (.., width, _)): (String, (&str, &str, i32, usize))| match width {
        w if w < 0 => format!(" {text:<w$} ", w = -w as usize),
        w => format!(" {text:>w$} ", w = w as usize),
    };
    let cells: Vec<_> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    format!("|{}|", cells.join("|"))
}

fn foot(bench: &KernelBench, yard: Yardsticks) -> String {
    let [device, backend, driver] = bench.device();
    let clock = match bench.has_timestamps() {
        true => "GPU timestamps around",
        false => "the host's clock around submit and wait of",
    };
    format!(
        "\n{}, {backend}, {}: copies {:.2} GB/s, multiply-adds {:.1} GFLOP/s; build {}\n\
         us: of one product, the median, by {clock} many in a row on copies of the matrix by turns; GB/s: \
         of weights",
        out::clean(device),
        out::clean(driver),
        yard.copy / 1e9,
        yard.peak / 1e9,
        row::build(),
    )
}
