//! Rows as text: a table as llama-bench prints it, CSV, JSON.

use super::row::Row;
use serde_json::Value;

/// Columns of the table: head, width (negative: to the left). With the bars at most 180 wide.
const COLUMNS: [(&str, i32); 15] = [
    ("model", -18),
    ("size", 10),
    ("params", 8),
    ("backend", -7),
    ("test", 18),
    ("t/s", 15),
    ("ms/token", 8),
    ("W MB/t", 7),
    ("KV MB/t", 7),
    ("% copy", 6),
    ("% peak", 6),
    ("p50 ms", 6),
    ("p95 ms", 6),
    ("p99 ms", 6),
    ("max ms", 6),
];

fn md_line(cells: [String; COLUMNS.len()]) -> String {
    let cell = |(text, (_, width)): (String, (&str, i32))| match width {
        w if w < 0 => format!(" {text:<w$} ", w = -w as usize),
        w => format!(" {text:>w$} ", w = w as usize),
    };
    let cells: Vec<_> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    format!("|{}|", cells.join("|"))
}

/// The table's first two lines.
pub fn md_head() -> String {
    let rule = COLUMNS.map(|(_, width)| match width {
        w if w < 0 => format!(" {} ", "-".repeat(-w as usize)),
        w => format!(" {}: ", "-".repeat(w as usize - 1)),
    });
    format!(
        "{}\n|{}|",
        md_line(COLUMNS.map(|(head, _)| head.into())),
        rule.join("|")
    )
}

/// A line of the table.
pub fn md(row: &Row) -> String {
    let number = |key: &str, scale: f64| match row[key].as_f64() {
        Some(v) => short(v * scale),
        None => "-".into(),
    };
    let fixed = |key: &str| row[key].as_f64().map_or("-".into(), |v| format!("{v:.2}"));
    let percent = |key: &str| row[key].as_f64().map_or("-".into(), |v| format!("{v:.1}"));
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    md_line([
        text("model_type"),
        size(row["model_size"].as_u64().unwrap_or(0)),
        count(row["model_n_params"].as_u64().unwrap_or(0)),
        text("backends"),
        text("test"),
        format!("{} ± {}", fixed("avg_ts"), fixed("stddev_ts")),
        number("ms_per_token", 1.0),
        number("weight_bytes_per_token", 1e-6),
        number("kv_bytes_per_token", 1e-6),
        percent("percent_of_copy"),
        percent("percent_of_peak"),
        number("step_ms_p50", 1.0),
        number("step_ms_p95", 1.0),
        number("step_ms_p99", 1.0),
        number("step_ms_max", 1.0),
    ])
}

/// What the table's figures are held against, and what its heads mean.
pub fn md_foot(row: &Row) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| row[key].as_f64().map_or("-".into(), short);
    format!(
        "{}, {}: copies {} GB/s, multiply-adds {} GFLOP/s; build {}\n\
         W, KV: weights and KV cache a token must read; % copy, % peak: of these two rates; ms: of a \
         decode step",
        text("gpu_info"),
        text("driver"),
        number("copy_gb_per_s"),
        number("peak_gflop_per_s"),
        text("build_commit"),
    )
}

/// Four digits or so.
fn short(v: f64) -> String {
    match v.abs() {
        a if a >= 1000.0 => format!("{v:.0}"),
        a if a >= 100.0 => format!("{v:.1}"),
        a if a >= 10.0 || a == 0.0 => format!("{v:.2}"),
        _ => format!("{v:.3}"),
    }
}

/// Fields that fit into a CSV cell: llama-bench leaves the single samples to JSON, and so do we.
fn csv_fields(row: &Row) -> impl Iterator<Item = (&String, &Value)> {
    row.iter().filter(|(_, v)| !v.is_array())
}

/// The line of field names.
pub fn csv_head(row: &Row) -> String {
    csv_fields(row)
        .map(|(k, _)| k.as_str())
        .collect::<Vec<_>>()
        .join(",")
}

/// A line of values.
pub fn csv(row: &Row) -> String {
    let cell = |(_, v): (_, &Value)| match v {
        Value::Null => "\"\"".into(),
        Value::String(s) => format!("\"{}\"", s.replace('"', "\"\"")),
        v => format!("\"{v}\""),
    };
    csv_fields(row).map(cell).collect::<Vec<_>>().join(",")
}

/// Bytes as llama-bench writes them.
fn size(bytes: u64) -> String {
    match bytes as f64 / (1u64 << 20) as f64 {
        mib if mib < 1024.0 => format!("{mib:.2} MiB"),
        mib => format!("{:.2} GiB", mib / 1024.0),
    }
}

/// Parameters as llama-bench writes them.
fn count(n: u64) -> String {
    match n as f64 {
        n if n < 1e9 => format!("{:.2} M", n / 1e6),
        n => format!("{:.2} B", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_fits_a_terminal() {
        for line in md_head().lines() {
            assert!(line.chars().count() <= 180, "{}", line.chars().count());
        }
    }

    #[test]
    fn sizes_counts_and_figures() {
        assert_eq!(size(98_362_432), "93.81 MiB");
        assert_eq!(size(4_677_120_000), "4.36 GiB");
        assert_eq!(count(134_515_008), "134.52 M");
        assert_eq!(count(7_615_616_512), "7.62 B");
        let all = [0.0, 0.31234, 9.5, 98.949, 512.34, 4912.7].map(short);
        assert_eq!(all, ["0.00", "0.312", "9.500", "98.95", "512.3", "4913"]);
    }

    #[test]
    fn csv_quotes() {
        let Value::Object(row) = json!({"a": "x\"y", "b": [1], "c": 2.5, "d": null}) else {
            unreachable!()
        };
        assert_eq!(csv_head(&row), "a,c,d");
        assert_eq!(csv(&row), r#""x""y","2.5","""#);
    }
}
