//! `tokstep bench --sustain MINUTES`: decoding without a pause, in laps that are all the same work, so
//! that windows of whole laps can be compared: whoever slows down, grows or heats is seen.

use super::latencies::Latencies;
use super::measure::{self, greedy};
use super::row::{self, Row};
use super::test::Test;
use super::window::{self, Bytes, Seconds, Window};
use super::{BenchArgs, Format, canvas, load, log, soak_plot};
use crate::cli::{interrupt, load as cli_load, out, pace, progress};
use serde_json::{Value, json};
use std::time::Instant;
use tokstep::engine::sensors::{self, Sensors};
use tokstep::engine::{Engine, Session};
use tokstep::{Error, Result};

/// Windows a run has, unless it is told how long they are.
const WINDOWS: f64 = 10.0;

/// What a run collects.
struct Soak<'a> {
    engine: &'a Engine,
    test: Test,
    start: Instant,
    sensors: Sensors,
    seconds: Seconds,
    /// Temperature and its moment, in seconds.
    temps: Vec<(f32, f32)>,
    /// When sensors are read next, in seconds.
    next_read: f64,
    /// The window that is filling.
    window: Window,
    /// Its steps.
    steps: Latencies,
    /// Seconds told with windows that are over.
    told: usize,
    done: Vec<Window>,
}

pub fn run(args: &BenchArgs, minutes: f64) -> Result<()> {
    let test = Test {
        prompt: 0,
        gen_: one("-n", &args.n_gen)?,
        depth: one("-d", &args.n_depth)?,
        parallel: one("--parallel", &args.parallel)?,
    };
    if test.gen_ == 0 {
        return Err(Error::NothingToPlot);
    }
    let mut log = args.log.as_deref().map(log::Log::open).transpose()?;
    args.plot.as_deref().map_or(Ok(()), canvas::check)?;
    let engine = load(args, test.parallel, &[test])?;
    let total = minutes * 60.0;
    let span = args.window.unwrap_or(total / WINDOWS).min(total);
    let name = format!("{} {}", row::now(), std::process::id());
    if args.output == Format::Md {
        out::say(format_args!(
            "{minutes} minutes in laps of {} tokens, each begun again after {} in the context, so that all are the \
             same work; a window is the laps of about {span:.1} s; one lap to warm up",
            test.gen_,
            test.before(),
        ));
    }
    let mut soak = Soak {
        engine: &engine,
        test,
        start: Instant::now(),
        sensors: Sensors::open(args.pace.sensors.as_deref()),
        seconds: Seconds::default(),
        temps: vec![],
        next_read: 0.0,
        window: Window::default(),
        steps: Latencies::default(),
        told: 0,
        done: vec![],
    };
    let mut rows: Vec<Row> = vec![];
    let bar = progress::count("sustain", total.ceil() as u64);
    let (before, interrupted) = soak.run(total, span, &mut |w, now| {
        bar.set_position(now as u64);
        let Some(w) = w else { return Ok(()) };
        let row = w.row(rows.len() + 1);
        bar.suspend(|| print(args.output, &row, rows.is_empty()))?;
        if let Some(log) = &mut log {
            let head = json!({ "date": row::now(), "kind": "window", "run": name });
            let mut line = row::object(head);
            line.extend(row.clone());
            log.append(&line.into())?;
        }
        rows.push(row);
        Ok(())
    })?;
    bar.finish_and_clear();

    let mut summary = window::summary(&soak.done, before, bytes(&engine), interrupted);
    summary.insert("depth".into(), test.before().into());
    summary.insert("lap_tokens".into(), test.gen_.into());
    summary.insert("parallel".into(), test.parallel.into());
    let report = engine.pace();
    if let Some(report) = &report {
        summary.insert("pace".into(), args.pace.object(report));
    }
    let mut words = window::in_words(&summary);
    if let Some(report) = &report {
        words += &format!("\n{}", pace::sentence(report));
    }
    match args.output {
        Format::Md => out::line(format_args!("\n{words}"))?,
        Format::Csv => out::say(format_args!("{words}")),
        Format::Jsonl => out::line(json!({ "summary": summary }))?,
        Format::Json => {
            let all = json!({ "windows": rows, "summary": summary });
            out::line(serde_json::to_string_pretty(&all).expect("strings and numbers"))?;
        }
    }
    if let Some(log) = &mut log {
        log.append(&last_line(args, &engine, &name, &summary)?)?;
    }
    if let Some(path) = &args.plot {
        let info = engine.info();
        let title = [
            format!(
                "{} {}: {} sustained for {:.1} min",
                info.model_name,
                info.file_type,
                test.name(),
                summary["seconds"].as_f64().unwrap_or(0.0) / 60.0
            ),
            format!("{}, {}; {}", info.device, info.driver, row::build()),
        ]
        .map(|line| out::clean(&line));
        let end = soak.done.last().map_or(0.0, |w| w.to);
        let drawing = soak_plot::Drawing {
            title: &title,
            per_second: soak.seconds.whole(0, end),
            temps: &soak.temps,
            windows: &soak.done,
        };
        drawing.write(path)?;
    }
    Ok(())
}

/// The one number of a flag that is a list elsewhere.
fn one(flag: &'static str, list: &[u32]) -> Result<u32> {
    match list {
        [n] => Ok(*n),
        _ => Err(Error::OneNumber {
            flag,
            with: "--sustain",
            given: list.len(),
        }),
    }
}

fn bytes(engine: &Engine) -> Bytes {
    Bytes {
        resident: sensors::resident(),
        allocated: engine.allocated(),
        pools: engine.info().memory.total(),
    }
}

fn print(format: Format, row: &Row, first: bool) -> Result<()> {
    match format {
        Format::Md if first => out::line(window::md_head()),
        Format::Csv if first => out::line(super::table::csv_head(row)),
        _ => Ok(()),
    }?;
    match format {
        Format::Md => out::line(window::md(row)),
        Format::Csv => out::line(super::table::csv(row)),
        Format::Jsonl => out::line(json!(row)),
        Format::Json => Ok(()),
    }
}

/// The line that ends a run in the log.
fn last_line(args: &BenchArgs, engine: &Engine, name: &str, summary: &Row) -> Result<Value> {
    let info = engine.info();
    let mut line = log::head([&info.device, &info.backend, &info.driver]);
    let files = match args.model.file() {
        Some(model) => log::files(model, &cli_load::path(model)?)?,
        None => json!([]),
    };
    line.extend(row::object(json!({
        "kind": "summary",
        "run": name,
        "model": info.model_name,
        "arch": info.arch,
        "files": files,
        "context": info.context,
        "load_ms": info.load_ms,
        "sustain": summary,
    })));
    Ok(line.into())
}

impl Soak<'_> {
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Runs laps until the time is up or Ctrl-C comes; memory after the warm-up, and whether it came.
    /// `tell` gets every window as it ends, and the time after every lap.
    fn run(
        &mut self,
        total: f64,
        span: f64,
        tell: &mut dyn FnMut(Option<&Window>, f64) -> Result<()>,
    ) -> Result<(Bytes, bool)> {
        let before = self.test.before() as usize;
        let ids = measure::synthetic(self.engine, before);
        let mut sessions = (0..self.test.parallel)
            .map(|_| self.engine.session())
            .collect::<Result<Vec<_>>>()?;
        for session in &mut sessions {
            session.prefill(&ids)?;
            session.generate(&greedy(1))?;
        }
        interrupt::arm();
        let mut whole = self.lap(&mut sessions)?;
        self.steps.take();
        let memory = bytes(self.engine);
        // From here on it counts.
        self.start = Instant::now();
        (self.seconds, self.window) = (Seconds::default(), Window::default());
        (self.temps, self.next_read) = (vec![], 0.0);
        let mut until = span;
        while whole {
            whole = self.lap(&mut sessions)?;
            let now = self.now();
            if whole {
                self.window.laps += 1;
                self.window.tokens += self.test.tokens();
                self.window.to = now;
            }
            let over = now >= until || now >= total || !whole;
            if over && self.window.laps > 0 {
                self.close();
                tell(self.done.last(), now)?;
                until = ((now / span).floor() + 1.0) * span;
            }
            tell(None, now)?;
            if now >= total {
                break;
            }
        }
        Ok((memory, !whole))
    }

    /// Ends the window and begins the next one where it ended.
    fn close(&mut self) {
        let end = self.window.to;
        let next = Window {
            from: end,
            ..Window::default()
        };
        let mut w = std::mem::replace(&mut self.window, next);
        w.bytes = bytes(self.engine);
        w.step_ms = self.steps.take();
        w.per_second = self.seconds.whole(self.told, end).to_vec();
        self.told += w.per_second.len();
        self.done.push(w);
    }

    /// One lap of all sequences; false if Ctrl-C came before its end. What it took counts for the
    /// window only if it was whole.
    fn lap(&mut self, sessions: &mut [Session]) -> Result<bool> {
        let before = self.test.before() as usize;
        let idled = |engine: &Engine| engine.pace().map_or(0.0, |p| p.idle());
        let idle_before = idled(self.engine);
        sessions.iter_mut().for_each(|s| s.rewind(before));
        let mut at = self.now();
        let mut answers = sessions
            .iter_mut()
            .map(|s| s.generate(&greedy(self.test.gen_ + 1)))
            .collect::<Result<Vec<_>>>()?;
        let mut steps = 0;
        for _ in 0..=self.test.gen_ {
            for answer in &mut answers {
                let piece = answer.next().transpose()?;
                assert!(piece.is_some(), "an answer ended early");
            }
            // A submit is timed by the answer that asked for it.
            let so_far: usize = answers.iter().map(|a| a.stats().step_ms.len()).sum();
            if so_far > steps {
                let now = self.now();
                let tokens = (so_far - steps) as f64 * f64::from(self.test.parallel);
                self.seconds.add(at, now, tokens);
                (at, steps) = (now, so_far);
                if now >= self.next_read {
                    let t = self.sensors.temperature();
                    self.temps
                        .extend(t.as_ref().map(|t| (now as f32, t.value as f32)));
                    self.window.sensed.add(t, self.sensors.power());
                    self.next_read = now.floor() + 1.0;
                }
            }
            if interrupt::pressed() {
                return Ok(false);
            }
        }
        for answer in &answers {
            self.steps.extend(&answer.stats().step_ms);
        }
        self.window.idle += idled(self.engine) - idle_before;
        Ok(true)
    }
}
