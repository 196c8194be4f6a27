//! A window of `bench --sustain`: what is collected in it, its row, and the summary of all.

use super::row::{self, Row};
use crate::cli::stats;
use serde_json::{Value, json};
use tokstep::engine::sensors::Reading;

/// Tokens per second, second by second: the tokens of a submit are spread over the time it took.
#[derive(Default)]
pub struct Seconds {
    /// Tokens in each second since the start; the last one is not over.
    bins: Vec<f32>,
}

impl Seconds {
    /// Adds tokens that came between two moments, in seconds since the start.
    pub fn add(&mut self, from: f64, to: f64, tokens: f64) {
        let last = to.max(0.0) as usize;
        if self.bins.len() <= last {
            self.bins.resize(last + 1, 0.0);
        }
        let span = to - from;
        if span <= 0.0 {
            self.bins[last] += tokens as f32;
            return;
        }
        for second in from.max(0.0) as usize..=last {
            let (a, b) = (from.max(second as f64), to.min(second as f64 + 1.0));
            self.bins[second] += (tokens * (b - a).max(0.0) / span) as f32;
        }
    }

    /// The seconds that are over, from one of them on.
    pub fn whole(&self, from: usize, until: f64) -> &[f32] {
        let end = (until as usize).min(self.bins.len());
        &self.bins[from.min(end)..end]
    }
}

/// The highest temperature, and the mean of powers.
#[derive(Clone, Default)]
pub struct Sensed {
    pub hottest: Option<Reading>,
    watts: f64,
    readings: u32,
    power_sensor: Option<String>,
}

impl Sensed {
    pub fn add(&mut self, temperature: Option<Reading>, power: Option<Reading>) {
        if let Some(t) = temperature
            && self.hottest.as_ref().is_none_or(|h| h.value < t.value)
        {
            self.hottest = Some(t);
        }
        if let Some(p) = power {
            self.watts += p.value;
            self.readings += 1;
            self.power_sensor = Some(p.sensor);
        }
    }

    fn power(&self) -> Option<f64> {
        (self.readings > 0).then(|| self.watts / f64::from(self.readings))
    }
}

/// Bytes at a moment.
#[derive(Clone, Copy, Default)]
pub struct Bytes {
    /// Resident memory of the process.
    pub resident: Option<u64>,
    /// What the device's allocator has handed out and reserved.
    pub allocated: Option<[u64; 2]>,
    /// Our own pools on the device.
    pub pools: u64,
}

/// A number of whole laps.
#[derive(Clone, Default)]
pub struct Window {
    /// Seconds since the start.
    pub from: f64,
    pub to: f64,
    pub laps: u32,
    pub tokens: u64,
    /// Milliseconds of a step: the median, the 99th percentile, the longest.
    pub step_ms: [Option<f64>; 3],
    /// Tokens in each of its seconds.
    pub per_second: Vec<f32>,
    pub sensed: Sensed,
    pub idle: f64,
    pub bytes: Bytes,
}

impl Window {
    /// Tokens per second.
    pub fn rate(&self) -> f64 {
        match self.to - self.from {
            s if s > 0.0 => self.tokens as f64 / s,
            _ => 0.0,
        }
    }

    fn idle_share(&self) -> f64 {
        match self.to - self.from {
            s if s > 0.0 => self.idle / s,
            _ => 0.0,
        }
    }

    /// Its row. `number` counts from 1.
    pub fn row(&self, number: usize) -> Row {
        let [p50, p99, most] = self.step_ms;
        row::object(json!({
            "window": number,
            "from_s": self.from,
            "to_s": self.to,
            "laps": self.laps,
            "tokens": self.tokens,
            "avg_ts": self.rate(),
            "ts_per_second": self.per_second,
            "step_ms_p50": p50,
            "step_ms_p99": p99,
            "step_ms_max": most,
            "resident_bytes": self.bytes.resident,
            "device_bytes": self.bytes.pools,
            "device_allocated_bytes": self.bytes.allocated.map(|a| a[0]),
            "device_reserved_bytes": self.bytes.allocated.map(|a| a[1]),
            "temp_c": self.sensed.hottest.as_ref().map(|r| r.value),
            "temp_sensor": self.sensed.hottest.as_ref().map(|r| &r.sensor),
            "power_w": self.sensed.power(),
            "power_sensor": self.sensed.power_sensor,
            "idle_s": self.idle,
            "idle_share": self.idle_share(),
        }))
    }
}

/// Columns of the table: head and width.
const COLUMNS: [(&str, usize); 12] = [
    ("window", 6),
    ("seconds", 15),
    ("laps", 5),
    ("t/s", 8),
    ("p50 ms", 8),
    ("p99 ms", 8),
    ("max ms", 8),
    ("resident MB", 11),
    ("device MB", 9),
    ("°C", 6),
    ("W", 6),
    ("idle %", 6),
];

fn line(cells: [String; COLUMNS.len()]) -> String {
    let cell = |(text, (_, width)): (String, (&str, usize))| format!(" {text:>width$} ");
    let cells: Vec<_> = cells.into_iter().zip(COLUMNS).map(cell).collect();
    format!("|{}|", cells.join("|"))
}

/// The table's first two lines.
pub fn md_head() -> String {
    let rule = COLUMNS.map(|(_, width)| format!(" {}: ", "-".repeat(width - 1)));
    let head = line(COLUMNS.map(|(head, _)| head.into()));
    format!("{head}\n|{}|", rule.join("|"))
}

/// A line of the table.
pub fn md(row: &Row) -> String {
    let number = |key: &str, scale: f64, digits: usize| match row[key].as_f64() {
        Some(v) => format!("{:.digits$}", v * scale),
        None => "-".into(),
    };
    let seconds = format!("{} - {}", number("from_s", 1.0, 1), number("to_s", 1.0, 1));
    // What the allocator holds is nearer to the truth than our own sum; not every backend tells.
    let device = match row["device_reserved_bytes"].is_null() {
        true => "device_bytes",
        false => "device_reserved_bytes",
    };
    line([
        number("window", 1.0, 0),
        seconds,
        number("laps", 1.0, 0),
        number("avg_ts", 1.0, 2),
        number("step_ms_p50", 1.0, 3),
        number("step_ms_p99", 1.0, 3),
        number("step_ms_max", 1.0, 3),
        number("resident_bytes", 1e-6, 2),
        number(device, 1e-6, 2),
        number("temp_c", 1.0, 1),
        number("power_w", 1.0, 1),
        number("idle_share", 100.0, 1),
    ])
}

/// What all windows show together. `before` is what memory was after the lap that warms up.
pub fn summary(windows: &[Window], before: Bytes, now: Bytes, interrupted: bool) -> Row {
    let grown = |of: fn(&Bytes) -> Option<u64>| {
        let (a, b) = (of(&before)?, of(&now)?);
        Some(i128::from(b) - i128::from(a)).and_then(|n| i64::try_from(n).ok())
    };
    let of = |w: Option<&Window>, f: fn(&Window) -> Option<f64>| w.and_then(f);
    let rate = |w: &Window| Some(w.rate());
    let p50 = |w: &Window| w.step_ms[0];
    let p99 = |w: &Window| w.step_ms[1];
    let (first, last) = (windows.first(), windows.last());
    let several = windows.len() > 1;
    let ratio = |f: fn(&Window) -> Option<f64>| {
        let (a, b) = (of(first, f)?, of(last, f)?);
        (several && a > 0.0).then(|| b / a * 100.0)
    };
    let hottest = windows
        .iter()
        .filter_map(|w| w.sensed.hottest.as_ref())
        .max_by(|a, b| a.value.total_cmp(&b.value));
    let watts: Vec<f64> = windows.iter().filter_map(|w| w.sensed.power()).collect();
    row::object(json!({
        "windows": windows.len(),
        "interrupted": interrupted,
        "seconds": last.map_or(0.0, |w| w.to),
        "laps": windows.iter().map(|w| u64::from(w.laps)).sum::<u64>(),
        "tokens": windows.iter().map(|w| w.tokens).sum::<u64>(),
        "first_ts": of(first, rate),
        "last_ts": of(last, rate),
        "last_percent_of_first": ratio(rate),
        "slowest_window_ts": windows.iter().map(Window::rate).min_by(f64::total_cmp),
        "first_step_ms_p50": of(first, p50),
        "last_step_ms_p50": of(last, p50),
        "first_step_ms_p99": of(first, p99),
        "last_step_ms_p99": of(last, p99),
        "resident_bytes": now.resident,
        "resident_growth_bytes": grown(|b| b.resident),
        "device_growth_bytes": grown(|b| b.allocated.map(|a| a[1])),
        "max_temp_c": hottest.map(|r| r.value),
        "temp_sensor": hottest.map(|r| &r.sensor),
        "mean_power_w": (!watts.is_empty()).then(|| stats::mean(&watts)),
        "idle_s": windows.iter().map(|w| w.idle).sum::<f64>(),
    }))
}

/// The summary as a line or two for people.
pub fn in_words(s: &Row) -> String {
    let f = |key: &str| s[key].as_f64();
    let mut text = match (f("last_percent_of_first"), f("first_ts"), f("last_ts")) {
        (Some(percent), Some(a), Some(b)) => format!(
            "last window against the first: {percent:.1} % of its speed ({a:.2} -> {b:.2} t/s)"
        ),
        (None, Some(a), _) => format!("one window only, {a:.2} t/s: nothing to compare it with"),
        _ => "no lap was finished: nothing to compare".into(),
    };
    if let (Some(a), Some(b), Some(c), Some(d)) = (
        f("first_step_ms_p50"),
        f("last_step_ms_p50"),
        f("first_step_ms_p99"),
        f("last_step_ms_p99"),
    ) {
        text += &format!(", p50 {a:.3} -> {b:.3} ms, p99 {c:.3} -> {d:.3} ms");
    }
    let signed = |key: &str, what: &str| match f(key) {
        Some(bytes) => format!("{what} {:+.2} MB", bytes / 1e6),
        None => format!("{what}: this system does not tell"),
    };
    text += &format!(
        "\nsince the warm-up: {}, {}",
        signed("resident_growth_bytes", "resident memory"),
        signed("device_growth_bytes", "device memory")
    );
    match (f("max_temp_c"), s["temp_sensor"].as_str()) {
        (Some(t), Some(sensor)) => text += &format!("; at most {t:.1} °C ({sensor})"),
        _ => text += "; no temperature sensor",
    }
    match f("mean_power_w") {
        Some(w) => text += &format!("; {w:.1} W in the mean"),
        None => text += "; no power sensor",
    }
    if s["interrupted"] == Value::Bool(true) {
        text += "; ended early by Ctrl-C";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_spread_over_seconds() {
        let mut s = Seconds::default();
        s.add(0.5, 2.5, 20.0);
        s.add(2.5, 2.75, 10.0);
        assert_eq!(s.whole(0, 3.0), [5.0, 10.0, 15.0]);
        assert_eq!(s.whole(1, 2.9), [10.0]);
        assert_eq!(s.whole(7, 9.0), [0.0f32; 0]);
    }

    #[test]
    fn the_last_window_is_held_against_the_first() {
        let window = |from: f64, tokens| Window {
            from,
            to: from + 10.0,
            laps: 1,
            tokens,
            step_ms: [Some(1.0), Some(3.0), Some(3.0)],
            ..Window::default()
        };
        let bytes = |n| Bytes {
            resident: Some(n),
            ..Bytes::default()
        };
        let windows = [window(0.0, 1000), window(10.0, 500), window(20.0, 950)];
        let s = summary(&windows, bytes(9_000_000), bytes(8_500_000), false);
        assert_eq!(s["last_percent_of_first"], 95.0);
        assert_eq!(s["slowest_window_ts"], 50.0);
        assert_eq!(s["resident_growth_bytes"], -500_000);
        let text = in_words(&s);
        assert!(
            text.contains("95.0 % of its speed (100.00 -> 95.00 t/s)")
                && text.contains("resident memory -0.50 MB")
                && text.contains("device memory: this system does not tell"),
            "{text}"
        );
        let one = summary(&windows[..1], bytes(1), bytes(1), true);
        assert!(one["last_percent_of_first"].is_null());
        assert!(in_words(&one).contains("Ctrl-C"));
        assert!(in_words(&summary(&[], bytes(1), bytes(1), true)).contains("no lap"));
        let widths: Vec<usize> = [md_head(), md(&windows[0].row(1))]
            .iter()
            .flat_map(|t| t.lines().map(|l| l.chars().count()).collect::<Vec<_>>())
            .collect();
        assert!(
            widths.iter().all(|w| *w == widths[0] && *w < 140),
            "{widths:?}"
        );
    }
}
