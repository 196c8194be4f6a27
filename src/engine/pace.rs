//! The governor at work: a clock, the sensors and the waiting around [`Governor`], between submits.

use std::time::{Duration, Instant};

use super::governor::{Governor, PaceOptions, Why};
use super::sensors::{Reading, Sensors};
use crate::{Error, Result};

/// A wait is slept in pieces of so many seconds, so that Ctrl-C is heard.
const NAP: f64 = 0.02;
/// Sensors are read at most this often, in seconds.
const READ_EVERY: f64 = 0.05;
/// Where a sensor decides, a submit should take no longer than this, in seconds: what happens within
/// one cannot be held.
const SUBMIT: f64 = 0.2;
/// Seconds after which it is said that a limit does not work.
const PATIENCE: f64 = 10.0;

/// What the governor did so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaceReport {
    /// Seconds in which the device was at work.
    pub busy_s: f64,
    /// Seconds idled, by the limit that asked for the most of each wait, as in [`Why::ALL`].
    pub idle_s: [f64; 3],
    /// The highest temperature seen, in degrees Celsius.
    pub hottest: Option<Reading>,
    /// The latest power, averaged over a second or so, in watts.
    pub power: Option<Reading>,
    /// Seconds above a limit although as much was idled as ever is.
    pub helpless_s: f64,
}

impl PaceReport {
    /// Seconds idled.
    pub fn idle(&self) -> f64 {
        self.idle_s.iter().sum()
    }

    /// Idle time as a part of idle and busy time.
    pub fn share(&self) -> f64 {
        match self.idle() {
            0.0 => 0.0,
            idle => idle / (idle + self.busy_s),
        }
    }
}

/// A governor with clock and sensors.
#[derive(Debug)]
pub struct Pace {
    options: PaceOptions,
    governor: Governor,
    sensors: Sensors,
    last_read: Option<Instant>,
    /// When the latest work ended, and how many seconds it took.
    last_work: Option<(Instant, f64)>,
    /// When the latest tokens were handed out, or the prompt was through.
    last_out: Option<Instant>,
    /// Seconds of a decode step.
    step: f64,
    report: PaceReport,
    /// Seconds without a reading of power.
    unseen_s: f64,
    warned: bool,
}

impl Pace {
    /// A governor for these limits; `None` where there are none.
    ///
    /// # Errors
    /// [`Error::NoSensor`] for a limit whose sensor does not exist or shows nothing.
    pub fn open(o: &PaceOptions) -> Result<Option<Pace>> {
        if !o.limits() {
            return Ok(None);
        }
        let mut sensors = Sensors::open(o.sensors.as_deref());
        if o.temp_limit.is_some() && sensors.temperature().is_none() {
            return Err(no_temperature(&sensors));
        }
        if o.power_limit.is_some() && !sensors.shows_power() {
            return Err(Error::NoSensor {
                flag: "--power-limit",
                what: "power",
                looked: sensors.looked_for_power(),
            });
        }
        let mut pace = Pace {
            options: o.clone(),
            governor: Governor::new(o),
            sensors,
            last_read: None,
            last_work: None,
            last_out: None,
            step: 0.0,
            report: PaceReport::default(),
            unseen_s: 0.0,
            warned: false,
        };
        pace.sense()?;
        Ok(Some(pace))
    }

    /// Decode steps a submit may have: with few tokens per second they should come one by one and
    /// not eight at a time, and between submits alone can be idled.
    pub fn most_steps(&self) -> u32 {
        let speed = self.options.max_tps.map_or(f64::INFINITY, |tps| tps / 4.0);
        let sensed = self.options.temp_limit.is_some() || self.options.power_limit.is_some();
        let short = match sensed && self.step > 0.0 {
            true => SUBMIT / self.step,
            false => f64::INFINITY,
        };
        speed.min(short).clamp(1.0, f64::from(u32::MAX)) as u32
    }

    /// What was done so far.
    pub fn report(&self) -> &PaceReport {
        &self.report
    }

    /// Idles what sensors ask for before the next submit: what went by since the last one ended counts.
    ///
    /// # Errors
    /// [`Error::NoSensor`] when the one that a limit needs is gone, as often as it is asked for.
    pub fn rest(&mut self) -> Result<()> {
        let Some((ended, busy)) = self.last_work else {
            return Ok(());
        };
        self.sense()?;
        while let Some(rest) = self.governor.rest(busy) {
            let left = rest.seconds - ended.elapsed().as_secs_f64();
            if !self.nap(left, rest.why) {
                break;
            }
            self.sense()?;
        }
        self.last_work = None;
        Ok(())
    }

    /// Takes note of work that took this long: decode steps and the tokens they gave, or a piece of a
    /// prompt, which has neither. Where there is a limit of speed, returns when the tokens are due.
    pub fn worked(&mut self, busy: Duration, steps: u32, tokens: u32) {
        let busy = busy.as_secs_f64();
        self.report.busy_s += busy;
        if steps > 0 {
            self.step = busy / f64::from(steps);
        }
        self.last_work = Some((Instant::now(), busy));
        // The work is done and its tokens are good: a sensor that is gone is told before the next.
        let _ = self.sense();
        let before = self.last_out;
        let since = |now: Instant| before.map_or(f64::INFINITY, |b| (now - b).as_secs_f64());
        while self.nap(
            self.governor.hold(since(Instant::now()), tokens),
            Why::MaxTps,
        ) {}
        self.last_out = Some(Instant::now());
    }

    /// Sleeps for a moment, if there is any time left and nobody is in a hurry.
    fn nap(&mut self, left: f64, why: Why) -> bool {
        if left <= 0.0 || self.options.interrupted.is_some_and(|f| f()) {
            return false;
        }
        let from = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(left.min(NAP)));
        self.report.idle_s[why as usize] += from.elapsed().as_secs_f64();
        true
    }

    /// Reads the sensors of the limits: at the end of work and while idling, so that means are of both.
    fn sense(&mut self) -> Result<()> {
        let now = Instant::now();
        let last = self.last_read.unwrap_or(now);
        let seconds = now.duration_since(last).as_secs_f64();
        if self.last_read.is_some() && seconds < READ_EVERY {
            return Ok(());
        }
        self.last_read = Some(now);
        let mut celsius = None;
        if self.options.temp_limit.is_some() {
            // A limit that nothing watches any more is no limit.
            let t = self.sensors.temperature();
            let Some(t) = t else {
                self.last_read = None;
                return Err(no_temperature(&self.sensors));
            };
            celsius = Some(t.value);
            if self
                .report
                .hottest
                .as_ref()
                .is_none_or(|h| h.value < t.value)
            {
                self.report.hottest = Some(t);
            }
        }
        let mut watts = None;
        if self.options.power_limit.is_some() {
            match self.sensors.power() {
                Some(p) => {
                    self.unseen_s = 0.0;
                    watts = Some(p.value);
                    self.report.power = Some(p);
                }
                None => self.unseen_s += seconds,
            }
        }
        self.governor.sense(seconds, celsius, watts);
        if let (Some(p), Some(mean)) = (&mut self.report.power, self.governor.watts()) {
            p.value = mean;
        }
        self.report.helpless_s = self.governor.helpless_s;
        let what = match (self.report.helpless_s > PATIENCE, self.unseen_s > PATIENCE) {
            (true, _) => "the device idles 95 % of the time and is above it still",
            // A charger was plugged in: no reason to end an answer.
            (_, true) => "no sensor shows power any more (a battery does only while it discharges)",
            _ => return Ok(()),
        };
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!("the limit cannot be held: {what}");
        }
        Ok(())
    }
}

fn no_temperature(sensors: &Sensors) -> Error {
    Error::NoSensor {
        flag: "--temp-limit",
        what: "temperature",
        looked: sensors.looked_for_temperature(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_its_sensor_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let o = PaceOptions {
            sensors: Some(dir.path().into()),
            ..PaceOptions::default()
        };
        assert!(Pace::open(&o).unwrap().is_none(), "no limit, no governor");
        let hot = PaceOptions {
            temp_limit: Some(60.0),
            ..o.clone()
        };
        let power = PaceOptions {
            power_limit: Some(60.0),
            ..o
        };
        for (o, flag, place) in [
            (hot, "--temp-limit", "thermal_zone"),
            (power, "--power-limit", "energy_uj"),
        ] {
            let error = Pace::open(&o).unwrap_err().to_string();
            for word in [flag, place, dir.path().to_str().unwrap(), "--sensors"] {
                assert!(error.contains(word), "no {word} in {error}");
            }
        }
    }
}
