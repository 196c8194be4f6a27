//! Tuning: which way of cutting each product of a model is fastest on this device, found by measuring,
//! within a budget, the shapes first that a token spends most on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::contest::{self, Change, Effort, Outcome, Tried};
use super::quarantine::Quarantine;
use super::verdicts::Verdicts;
use crate::Result;
use crate::gpu::Gpu;
use crate::kernel::Caps;
use crate::model::Model;
use crate::plan::product::Cut;
use crate::plan::sizes::stride;
use crate::plan::tuning::candidates;
use crate::plan::{self, Init, Program, Shape, Tuning, Which};

/// Whether products are cut as measurement found best.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tune {
    /// As is usual for the kind of device.
    #[default]
    Off,
    /// As verdicts in this folder say, which an earlier load or `tokstep tune` left there.
    Cached(PathBuf),
    /// The same, and what is missing is measured first and kept there, for at most [`LOAD_BUDGET`].
    IfMissing(PathBuf),
    /// The same, but on software devices only what is there: measured, their gain is smaller than the noise,
    /// and compiling the candidates takes seconds.
    OnHardware(PathBuf),
}

impl Tune {
    /// The folder with verdicts.
    pub fn folder(&self) -> Option<&PathBuf> {
        match self {
            Tune::Off => None,
            Tune::Cached(dir) | Tune::IfMissing(dir) | Tune::OnHardware(dir) => Some(dir),
        }
    }
}

/// What a load may spend on measuring. No more cuts are tried than are likely to fit; shapes for which
/// nothing is left are the next load's.
pub const LOAD_BUDGET: Duration = Duration::from_secs(3);

/// A matrix of fewer bytes is read in less time than a dispatch takes, however it is cut, so a load
/// does not measure it.
const LEAST: u64 = 128 << 10;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct TuneOptions {
    /// No more cuts are tried than are likely to fit into this.
    pub budget: Duration,
    /// Rounds in which all cuts of a shape are timed in turns.
    pub rounds: usize,
    /// Smaller matrices (bytes, repacked) are left out.
    pub least: u64,
    /// Changes steps of a cut before they run: for tests that plant errors.
    pub change: Option<Change>,
}

impl Default for TuneOptions {
    fn default() -> TuneOptions {
        TuneOptions {
            budget: LOAD_BUDGET,
            rounds: 7,
            least: LEAST,
            change: None,
        }
    }
}

/// A shape of a model's products, and what was found.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The shape.
    pub shape: Shape,
    /// One product of it.
    pub label: String,
    /// Products of this shape in its plan.
    pub count: usize,
    /// Bytes of weights of one product as measured (of a large matrix only a part is).
    pub bytes: u64,
    /// All ways to cut it, the usual one first.
    pub tried: Vec<Tried>,
    /// Number of the one to take; `None` if none was right.
    pub chosen: Option<usize>,
}

/// What a tuning pass did.
#[derive(Clone, Debug, Default)]
pub struct TuneReport {
    /// What was measured, in this order.
    pub measured: Vec<Measured>,
    /// What there was no time for.
    pub left: Vec<Shape>,
    /// Milliseconds it took.
    pub ms: f64,
}

/// A shape of a program's products.
struct Wanted {
    shape: Shape,
    label: String,
    count: usize,
    /// Of one matrix.
    bytes: u64,
}

/// Every shape that decoding and prompts have, those first that take most of a token's time: all of
/// decoding by bytes, then prompts.
fn wanted(p: &Program) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    for which in [Which::Decode, Which::PrefillLast] {
        let mut here: Vec<Wanted> = Vec::new();
        let mut last = "";
        for step in p.steps(which) {
            let Some(shape) = step.shape else { continue };
            // Tiles of columns and shards of one product follow each other.
            let label = step.label.split('#').next().unwrap_or_default();
            let again = std::mem::replace(&mut last, label) == label;
            if again || all.iter().any(|w| w.shape == shape) {
                continue;
            }
            let w = step.binds.iter().find(|b| b.name == "w");
            let Some(Init::Rows { matrix, .. }) = w.map(|b| &p.buffers[b.buf].init) else {
                continue;
            };
            match here.iter_mut().find(|w| w.shape == shape) {
                Some(w) => w.count += 1,
                None => here.push(Wanted {
                    shape,
                    label: label.to_string(),
                    count: 1,
                    bytes: matrix.row_vec4s() as u64 * 16 * matrix.rows as u64,
                }),
            }
        }
        here.sort_by_key(|w| std::cmp::Reverse(w.bytes * w.count as u64));
        all.extend(here);
    }
    all
}

/// Measures the shapes of a program that `known` does not have, and adds them to it.
pub(super) fn measure(
    gpu: &Arc<Gpu>,
    model: &Model,
    program: &Program,
    known: &mut Tuning,
    quarantine: &Quarantine,
    o: &TuneOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<TuneReport> {
    let start = Instant::now();
    let mut todo = wanted(program);
    todo.retain(|w| !known.has(w.shape) && w.bytes >= o.least);
    let effort = effort(&gpu.caps, o);
    let mut report = TuneReport::default();
    // The longest that the trial of a cut took so far, mostly its compilation.
    let mut per_cut: Option<Duration> = None;
    let total = todo.len();
    for (i, w) in todo.into_iter().enumerate() {
        progress(i, total);
        let left = || o.budget.saturating_sub(start.elapsed());
        let all = candidates(&gpu.caps, stride(w.shape.k), w.shape.cols);
        let caps = small(&gpu.caps, model, &w);
        let build = |cut: Cut| {
            let mut tuning = Tuning::default();
            tuning.set(w.shape, cut);
            plan::build_tuned(model, &caps, program.sizes, &tuning)
        };
        let run = |cuts: &[Cut]| {
            let begin = Instant::now();
            let found = contest::run(gpu, &build, w.shape, cuts, effort, o.change);
            found.map(|found| (found, begin.elapsed() / cuts.len() as u32))
        };
        // What is in quarantine takes no part.
        let caught = |cut: &Cut| {
            if quarantine.is_empty() {
                return None; // as nearly always; a program is not built for nothing
            }
            let program = build(*cut);
            let caught =
                contest::variants(&program, w.shape).find_map(|s| quarantine.caught(&s))?;
            let outcome = Outcome::Failed(format!("in quarantine: {caught}"));
            Some(Tried { cut: *cut, outcome })
        };
        let mut tried: Vec<Option<Tried>> = all.iter().map(caught).collect();
        let open = all
            .iter()
            .zip(&tried)
            .filter(|(_, caught)| caught.is_none());
        let mut cuts: Vec<Cut> = open.map(|(cut, _)| *cut).collect();
        let (mut chosen, mut bytes) = (None, 0);
        if !cuts.is_empty() {
            if per_cut.is_none() && !left().is_zero() {
                per_cut = Some(run(&cuts[..1])?.1);
            }
            let least = cuts.len().min(2);
            let time = per_cut.unwrap_or_default().as_secs_f64().max(1e-6);
            cuts.truncate((left().as_secs_f64() / time) as usize);
            if cuts.len() < least {
                report.left.push(w.shape);
                continue;
            }
            let (found, took) = run(&cuts)?;
            per_cut = per_cut.max(Some(took));
            bytes = found.bytes;
            if let Some(best) = found.chosen {
                known.set(w.shape, cuts[best]);
                chosen = all.iter().position(|cut| *cut == cuts[best]);
            }
            for t in found.tried {
                let at = all.iter().position(|cut| *cut == t.cut);
                tried[at.expect("one of them")] = Some(t);
            }
        }
        if chosen.is_none() {
            tracing::warn!("no way of computing {} is right on this device", w.label);
        }
        // Ways that there was no time for come last.
        chosen = chosen.map(|i| tried[..i].iter().flatten().count());
        report.measured.push(Measured {
            shape: w.shape,
            label: w.label,
            count: w.count,
            bytes,
            tried: tried.into_iter().flatten().collect(),
            chosen,
        });
    }
    progress(total, total);
    report.ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(report)
}

/// The device with less room for a matrix, so that of a large one only a part is measured: enough to
/// come from memory, little enough to be measured many times.
fn small(caps: &Caps, model: &Model, w: &Wanted) -> Caps {
    let work = w.shape.rows as f64 * w.shape.k as f64 * w.shape.cols as f64;
    // A part of the matrix, but a few tiles of rows at least.
    let part = (SOFTWARE_WORK as f64 / work).max(128.0 / w.shape.rows as f64);
    let bytes = (w.bytes as f64 * part).min((16 << 20) as f64);
    // The others are cut as well, and a tile of rows is the least.
    let tile = model
        .weights
        .matrices()
        .iter()
        .map(|m| 32 * (16 * m.row_vec4s() + 4))
        .max();
    let bytes = bytes.max(tile.unwrap_or(0) as f64) + 8192.0;
    Caps {
        max_storage: caps.max_storage.min(128 << 20),
        max_texture: caps.max_texture.min((bytes / 16.0).sqrt().ceil() as u32),
        ..caps.clone()
    }
}

/// Weights times columns that a software device does in a few milliseconds.
const SOFTWARE_WORK: u64 = 32 << 20;

fn effort(caps: &Caps, o: &TuneOptions) -> Effort {
    // A processor's caches do not matter to kernels that arithmetic bounds; a GPU's hold tens of MB.
    let (bytes, work) = match caps.software {
        true => (4 << 20, SOFTWARE_WORK),
        false => (64 << 20, 64 << 30),
    };
    Effort {
        bytes,
        work,
        rounds: o.rounds,
        time: o.budget / 10,
    }
}

/// The tuning that `tune` asks for; measuring that goes wrong is told and costs no load, unless it is the
/// device that is gone.
pub(super) fn tuning(
    gpu: &Arc<Gpu>,
    model: &Model,
    program: &Program,
    tune: &Tune,
    quarantine: &Quarantine,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Tuning, TuneReport)> {
    let mut report = TuneReport::default();
    let Some(dir) = tune.folder() else {
        return Ok((Tuning::default(), report));
    };
    let verdicts = Verdicts::of(dir, gpu);
    let shapes = wanted(program).into_iter().map(|w| w.shape);
    let mut known = verdicts.read(&gpu.caps, shapes);
    let first_load = match tune {
        Tune::IfMissing(_) => true,
        Tune::OnHardware(_) => !gpu.caps.software,
        Tune::Off | Tune::Cached(_) => false,
    };
    if first_load {
        let (o, before) = (TuneOptions::default(), known.clone());
        match measure(gpu, model, program, &mut known, quarantine, &o, progress) {
            Ok(r) => report = r,
            Err(e) if e.ends_device() => return Err(e),
            Err(e) => tracing::warn!("tuning ended early: {e}"),
        }
        if known != before {
            verdicts.keep(&known);
        }
    }
    Ok((known, report))
}

/// Measures everything anew and keeps it in `folder`.
pub(super) fn anew(
    gpu: &Arc<Gpu>,
    model: &Model,
    program: &Program,
    quarantine: &Quarantine,
    o: &TuneOptions,
    folder: Option<&PathBuf>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<TuneReport> {
    let mut known = Tuning::default();
    let report = measure(gpu, model, program, &mut known, quarantine, o, progress);
    // What was found before something went wrong was found.
    if let Some(dir) = folder {
        Verdicts::of(dir, gpu).keep(&known);
    }
    report
}

/// In words, each shape whose cut is another than the usual one.
pub(super) fn changes(caps: &Caps, tuning: &Tuning) -> Vec<String> {
    let usual = |s: &Shape| plan::product::choose(caps, stride(s.k), s.cols);
    let changed = tuning.iter().filter(|(s, cut)| *cut != usual(s));
    changed.map(|(s, cut)| format!("{s}: {cut}")).collect()
}
