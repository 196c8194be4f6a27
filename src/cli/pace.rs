//! Flags that hold a device below a speed, a power or a temperature, and what is said of it.

use super::interrupt;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokstep::engine::{PaceOptions, PaceReport, Why};

#[derive(Args, Clone)]
#[command(next_help_heading = "Pace")]
pub struct PaceArgs {
    /// Generate at most N tokens per second, of all sequences together
    #[arg(long, value_name = "N", value_parser = positive, allow_negative_numbers = true)]
    max_tps: Option<f64>,
    /// Idle between submits so that the mean power stays at or below W watts (the largest that RAPL, a
    /// GPU's sensor or a discharging battery shows)
    #[arg(long, value_name = "W", value_parser = positive, allow_negative_numbers = true)]
    power_limit: Option<f64>,
    /// Idle between submits so that the hottest chip stays at or below C degrees Celsius
    #[arg(long, value_name = "C", value_parser = positive, allow_negative_numbers = true)]
    temp_limit: Option<f64>,
    /// Read sensors below this folder, laid out as /sys is
    #[arg(long, value_name = "DIR")]
    pub sensors: Option<PathBuf>,
}

impl PaceArgs {
    pub fn options(&self) -> PaceOptions {
        PaceOptions {
            max_tps: self.max_tps,
            power_limit: self.power_limit,
            temp_limit: self.temp_limit,
            sensors: self.sensors.clone(),
            interrupted: Some(interrupt::pressed),
        }
    }

    /// The limits and what was done to hold them, for JSON.
    pub fn object(&self, report: &PaceReport) -> Value {
        let for_ = Why::ALL.map(|why| (why.name().to_owned(), json!(report.idle_s[why as usize])));
        json!({
            "max_tps": self.max_tps,
            "power_limit_w": self.power_limit,
            "temp_limit_c": self.temp_limit,
            "busy_s": report.busy_s,
            "idle_s": report.idle(),
            "idle_share": report.share(),
            "idle_s_for": Value::Object(for_.into_iter().collect()),
            "max_temp_c": report.hottest.as_ref().map(|r| r.value),
            "temp_sensor": report.hottest.as_ref().map(|r| &r.sensor),
            "power_w": report.power.as_ref().map(|r| r.value),
            "power_sensor": report.power.as_ref().map(|r| &r.sensor),
            "above_limit_s": report.helpless_s,
        })
    }
}

/// A sentence for people.
pub fn sentence(report: &PaceReport) -> String {
    let mut text = format!(
        "pace: idled {:.2} s, {:.1} % of the time",
        report.idle(),
        report.share() * 100.0
    );
    let parts: Vec<_> = Why::ALL
        .iter()
        .filter(|why| report.idle_s[**why as usize] > 0.0)
        .map(|why| {
            let flag = why.name().replace('_', "-");
            format!("{:.2} s for {flag}", report.idle_s[*why as usize])
        })
        .collect();
    if !parts.is_empty() {
        text += &format!(" ({})", parts.join(", "));
    }
    if let Some(r) = &report.hottest {
        text += &format!("; at most {:.1} °C ({})", r.value, r.sensor);
    }
    if let Some(r) = &report.power {
        text += &format!("; {:.1} W at last ({})", r.value, r.sensor);
    }
    if report.helpless_s > 0.0 {
        text += &format!(
            "; {:.1} s above the limit at the least speed there is",
            report.helpless_s
        );
    }
    text
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(v) if v > 0.0 && f64::is_finite(v) => Ok(v),
        _ => Err("a number above 0 is needed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_in_words() {
        let report = PaceReport {
            busy_s: 6.0,
            idle_s: [0.0, 0.5, 1.5],
            ..PaceReport::default()
        };
        assert_eq!(
            sentence(&report),
            "pace: idled 2.00 s, 25.0 % of the time (0.50 s for power, 1.50 s for temperature)"
        );
    }
}
