//! The control law of the governor: how long to idle after a piece of work, so that a device stays
//! below a speed, a power or a temperature. Plain arithmetic in seconds that a test may make up; `pace`
//! gives it a clock and sensors.

use std::path::PathBuf;

/// Most of the time that is ever idled: an answer goes on, however hot it is.
const MOST: f64 = 0.95;
/// Seconds over which a power sensor's readings are averaged: many show a moment only.
const POWER_MEAN: f64 = 1.0;

/// What must not be exceeded.
#[derive(Clone, Debug, Default)]
pub struct PaceOptions {
    /// Generated tokens per second, of all sequences.
    pub max_tps: Option<f64>,
    /// Watts.
    pub power_limit: Option<f64>,
    /// Degrees Celsius.
    pub temp_limit: Option<f64>,
    /// The folder that stands for `/sys`; `None`: `/sys`.
    pub sensors: Option<PathBuf>,
    /// Asked while idling: whether to stop that.
    pub interrupted: Option<fn() -> bool>,
}

impl PaceOptions {
    /// Whether there is any limit.
    pub fn limits(&self) -> bool {
        self.max_tps.is_some() || self.power_limit.is_some() || self.temp_limit.is_some()
    }
}

/// Why time was idled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Why {
    MaxTps,
    Power,
    Temperature,
}

impl Why {
    /// All of them, in the order of [`PaceReport::idle_s`](super::PaceReport::idle_s).
    pub const ALL: [Why; 3] = [Why::MaxTps, Why::Power, Why::Temperature];

    /// As in JSON and in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Why::MaxTps => "max_tps",
            Why::Power => "power",
            Why::Temperature => "temperature",
        }
    }
}

/// A proportional and integral controller with bounds: what share of time to idle. The integral
/// finds the share that holds the limit, the proportional part catches a quick rise, and as it is
/// negative below the limit, speed comes back at once when a device cools.
#[derive(Clone, Copy, Debug)]
struct Law {
    /// Value that is held.
    target: f64,
    /// Share per unit above the target.
    proportional: f64,
    /// Share per unit and second.
    integral: f64,
    held: f64,
    share: f64,
}

impl Law {
    /// Three degrees below the limit are held, so that the limit itself is not passed by a sensor's
    /// step or while the integral is still growing.
    fn temperature(limit: f64) -> Law {
        Law {
            target: limit - 3.0,
            proportional: 0.2,
            integral: 0.02,
            held: 0.0,
            share: 0.0,
        }
    }

    /// Power follows at once, but for the averaging, so the integral does it all. In units of the limit.
    fn power(limit: f64) -> Law {
        Law {
            target: limit,
            proportional: 0.0,
            integral: 0.2 / limit,
            held: 0.0,
            share: 0.0,
        }
    }

    fn step(&mut self, value: f64, seconds: f64) -> f64 {
        let above = value - self.target;
        // Bounded, so that a long time far above or below the limit is not paid for afterwards.
        self.held = (self.held + self.integral * above * seconds).clamp(0.0, MOST);
        self.share = (self.held + self.proportional * above).clamp(0.0, MOST);
        self.share
    }
}

/// How long to idle after a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rest {
    /// Seconds.
    pub seconds: f64,
    /// The limit that asked for it.
    pub why: Why,
}

/// The control law of all limits, without clock and sensors.
#[derive(Clone, Debug)]
pub struct Governor {
    max_tps: Option<f64>,
    power: Option<(Law, f64)>,
    temperature: Option<(Law, f64)>,
    mean_watts: Option<f64>,
    /// Seconds above a limit although as much was idled as ever is.
    pub(super) helpless_s: f64,
}

impl Governor {
    /// A governor that idles nothing yet.
    pub fn new(o: &PaceOptions) -> Governor {
        Governor {
            max_tps: o.max_tps,
            power: o.power_limit.map(|w| (Law::power(w), w)),
            temperature: o.temp_limit.map(|t| (Law::temperature(t), t)),
            mean_watts: None,
            helpless_s: 0.0,
        }
    }

    /// Takes what sensors show, `seconds` after they were last read: degrees Celsius and watts.
    pub fn sense(&mut self, seconds: f64, celsius: Option<f64>, watts: Option<f64>) {
        let mut helpless = false;
        if let (Some((law, limit)), Some(value)) = (&mut self.temperature, celsius) {
            helpless |= law.step(value, seconds) >= MOST && value > *limit;
        }
        if let Some(watts) = watts {
            let part = 1.0 - (-seconds / POWER_MEAN).exp();
            let mean = self.mean_watts.map_or(watts, |m| m + (watts - m) * part);
            self.mean_watts = Some(mean);
            if let Some((law, limit)) = &mut self.power {
                helpless |= law.step(mean, seconds) >= MOST && mean > *limit;
            }
        }
        if helpless {
            self.helpless_s += seconds;
        }
    }

    /// How long to idle after work that took `busy` seconds, as sensors stand now: to be asked again
    /// while idling.
    pub fn rest(&self, busy: f64) -> Option<Rest> {
        let of = |law: &Option<(Law, f64)>, why| {
            let share = law.map_or(0.0, |(l, _)| l.share);
            let seconds = busy * share / (1.0 - share);
            Rest { seconds, why }
        };
        let (power, heat) = (
            of(&self.power, Why::Power),
            of(&self.temperature, Why::Temperature),
        );
        let longer = match power.seconds > heat.seconds {
            true => power,
            false => heat,
        };
        (longer.seconds > 0.0).then_some(longer)
    }

    /// How long tokens are to be held back that are there `since` seconds after those before them.
    pub fn hold(&self, since: f64, tokens: u32) -> f64 {
        let due = self.max_tps.map_or(0.0, |most| f64::from(tokens) / most);
        (due - since).max(0.0)
    }

    /// The mean power, in watts.
    pub fn watts(&self) -> Option<f64> {
        self.mean_watts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sensors::Sensors;
    use std::path::Path;

    /// A device that heats towards `air + 80` degrees at work and cools towards `air` at rest, as a file
    /// below a fake `/sys`.
    struct Heated<'a> {
        dir: &'a Path,
        air: f64,
        celsius: f64,
        slowness: f64,
        hottest: f64,
        shown: Option<i64>,
    }

    impl Heated<'_> {
        fn pass(&mut self, seconds: f64, works: bool) {
            let end = self.air + if works { 80.0 } else { 0.0 };
            self.celsius = end + (self.celsius - end) * (-seconds / self.slowness).exp();
            self.hottest = self.hottest.max(self.celsius);
            // Whole degrees, as such sensors have them.
            let shown = self.celsius.floor() as i64;
            if self.shown.replace(shown) != Some(shown) {
                let zone = self.dir.join("class/thermal/thermal_zone0");
                std::fs::create_dir_all(&zone).unwrap();
                std::fs::write(zone.join("temp"), format!("{}\n", shown * 1000)).unwrap();
            }
        }
    }

    /// Runs submits of `busy` seconds for so long; tokens (one per 25 ms of work) per second.
    fn go(g: &mut Governor, device: &mut Heated, busy: f64, seconds: f64) -> f64 {
        let sensors = Sensors::open(Some(device.dir));
        let celsius = || sensors.temperature().map(|t| t.value);
        let (mut time, mut tokens, mut sensed) = (0.0, 0.0, 0.0);
        while time < seconds {
            device.pass(busy, true);
            time += busy;
            tokens += busy / 0.025;
            g.sense(time - sensed, celsius(), None);
            sensed = time;
            let mut idled = 0.0;
            while let Some(rest) = g.rest(busy).filter(|r| r.seconds > idled) {
                assert_eq!(rest.why, Why::Temperature);
                let nap = (rest.seconds - idled).clamp(0.001, 0.05);
                device.pass(nap, false);
                (idled, time) = (idled + nap, time + nap);
                g.sense(time - sensed, celsius(), None);
                sensed = time;
            }
        }
        tokens / time
    }

    #[test]
    fn a_temperature_is_held_and_speed_recovers_when_it_cools() {
        for slowness in [3.0, 20.0, 80.0] {
            let dir = tempfile::tempdir().unwrap();
            let o = PaceOptions {
                temp_limit: Some(85.0),
                ..PaceOptions::default()
            };
            let mut g = Governor::new(&o);
            let mut device = Heated {
                dir: dir.path(),
                air: 40.0,
                celsius: 40.0,
                slowness,
                hottest: 0.0,
                shown: None,
            };
            device.pass(0.0, false);
            let cold = go(&mut g, &mut device, 0.2, slowness / 10.0);
            assert!(cold > 38.0, "below the limit nothing is idled: {cold}");
            go(&mut g, &mut device, 0.2, slowness * 10.0 + 60.0);
            // The beginning may pass the limit by the degree a sensor leaves out and one submit's heat.
            let one_submit = 80.0 * 0.2 / slowness;
            assert!(
                device.hottest < 86.0 + one_submit,
                "{slowness}: {}",
                device.hottest
            );
            device.hottest = 0.0;
            let held = go(&mut g, &mut device, 0.2, 100.0);
            assert!(device.hottest <= 85.0, "{slowness}: {}", device.hottest);
            // 42 degrees above the air of the 80 that all work would give.
            assert!(
                (held / 40.0 - 42.0 / 80.0).abs() < 0.06,
                "{slowness}: {held}"
            );
            device.air = 0.0; // a window is opened: all work gives 80 degrees
            go(&mut g, &mut device, 0.2, slowness * 10.0 + 60.0);
            let again = go(&mut g, &mut device, 0.2, 100.0);
            assert!(again > 39.0, "{slowness}: speed after cooling: {again}");
        }
    }

    #[test]
    fn power_is_held_in_the_mean() {
        let o = PaceOptions {
            power_limit: Some(30.0),
            ..PaceOptions::default()
        };
        let mut g = Governor::new(&o);
        let (mut time, mut joules, mut idle) = (0.0, 0.0, 0.0);
        for i in 0..2000 {
            // 50 W at work and 10 W at rest, shown as they are in the moment.
            g.sense(0.1, None, Some(50.0));
            let rest = g.rest(0.1).map_or(0.0, |r| r.seconds);
            if rest > 0.0 {
                g.sense(rest, None, Some(10.0));
            }
            if i >= 1000 {
                time += 0.1 + rest;
                idle += rest;
                joules += 5.0 + 10.0 * rest;
            }
        }
        assert!((joules / time - 30.0).abs() < 1.5, "{} W", joules / time);
        assert!((idle / time - 0.5).abs() < 0.05, "{}", idle / time);
    }

    #[test]
    fn the_speed_limit_is_exact_and_an_answer_goes_on_however_hot() {
        let o = PaceOptions {
            max_tps: Some(20.0),
            temp_limit: Some(60.0),
            ..PaceOptions::default()
        };
        let mut g = Governor::new(&o);
        assert!((g.hold(0.1, 8) - 0.3).abs() < 1e-9);
        assert_eq!(g.hold(0.5, 8), 0.0, "slow enough by itself");
        g.sense(0.1, Some(30.0), None);
        assert_eq!(g.rest(0.1), None);
        g.sense(0.1, Some(90.0), None);
        let hot = g.rest(0.1).unwrap();
        assert_eq!(hot.why, Why::Temperature);
        assert!((hot.seconds - 0.1 * MOST / (1.0 - MOST)).abs() < 1e-9);
        (0..200).for_each(|_| g.sense(0.1, Some(90.0), None));
        assert!((g.helpless_s - 20.1).abs() < 0.2, "{}", g.helpless_s);
    }
}
