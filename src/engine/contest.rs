//! One product cut in several ways, side by side on the device: each way is checked against the CPU
//! twin, and those that are right are timed in turns. Steps, parameters and weights are those of the
//! model's own plan; only activations are made up.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::gpu::{Gpu, GpuProgram};
use crate::kernel::Shader;
use crate::plan::product::Cut;
use crate::plan::{Batch, BufId, Buffer, Init, Program, Shape, Step, Which};
use crate::reference::Runner;
use crate::reference::compare::{self, Kind};

/// How much is run.
#[derive(Clone, Copy)]
pub(super) struct Effort {
    /// Weight bytes that a round reads at least, so that caches do not lie.
    pub bytes: u64,
    /// Weights times columns that a round may have, where arithmetic is slow.
    pub work: u64,
    /// Rounds at most.
    pub rounds: usize,
    /// When rounds end early (three are always run).
    pub time: Duration,
}

/// What became of a way to cut a product.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Right, and this many nanoseconds a product in the fastest round.
    Timed(f64),
    /// Not what the twin says, or not accepted by the device: no candidate.
    Failed(String),
}

/// A cut and what became of it.
#[derive(Clone, Debug)]
pub struct Tried {
    /// How the product was cut.
    pub cut: Cut,
    /// Whether it was right, and how fast.
    pub outcome: Outcome,
}

/// Changes steps of a cut before they run: for tests that plant errors.
pub type Change = fn(&Cut, &mut Step);

/// Most products of a round.
const MOST: usize = 64;
/// Products of weights and activations that the twin does for a check.
const TWIN_WORK: u64 = 16 << 20;
/// Rounds after which a cut [`HOPELESS`] times slower than the best is given up.
const TRIAL: usize = 2;
/// See [`TRIAL`].
const HOPELESS: f64 = 1.5;
/// A cut must take less than this part of the usual one's time to replace it.
const WIN: f64 = 0.97;

/// A product's steps (one per tile of columns) under each cut, several products of one shape.
struct Contest {
    program: Program,
    /// Steps of each cut.
    groups: Vec<Range<usize>>,
    /// Steps of one product under each cut.
    each: Vec<usize>,
    products: usize,
    /// Weight bytes of one product as it is run here.
    bytes: u64,
    batch: Batch,
}

/// What a contest found.
pub(super) struct Found {
    pub tried: Vec<Tried>,
    pub chosen: Option<usize>,
    pub bytes: u64,
}

/// Runs the contest of `cuts`, the first of which is the usual one. `build` makes the model's program
/// with the shape cut that way. A device that is lost is an error; a cut that it refuses is no candidate.
pub(super) fn run(
    gpu: &Arc<Gpu>,
    build: &dyn Fn(Cut) -> Program,
    shape: Shape,
    cuts: &[Cut],
    effort: Effort,
    change: Option<Change>,
) -> Result<Found> {
    let programs: Vec<Program> = cuts.iter().map(|c| build(*c)).collect();
    let contest = |which: &[usize]| Contest::new(&programs, cuts, which, shape, effort, change);
    let trial = |which: &[usize]| trial(gpu, contest(which));
    let mut outcomes = HashMap::new();
    let mut entered: Vec<usize> = (0..cuts.len()).collect();
    let mut all = trial(&entered)?;
    if all.is_err() {
        // One of them is not accepted; the others may be.
        for i in std::mem::take(&mut entered) {
            match trial(&[i])? {
                Ok(_) => entered.push(i),
                Err(why) => drop(outcomes.insert(i, Outcome::Failed(why))),
            }
        }
        if !entered.is_empty() {
            all = trial(&entered)?;
        }
    }
    let (mut chosen, mut bytes) = (None, 0);
    match all {
        Ok((g, c, wrong)) => {
            let right: Vec<usize> = (0..entered.len()).filter(|n| wrong[*n].is_none()).collect();
            let times = c.time(&g, &right, effort)?;
            let failed = wrong.into_iter().zip(&entered);
            outcomes.extend(failed.filter_map(|(why, i)| Some((*i, Outcome::Failed(why?)))));
            let timed = right.iter().zip(&times);
            outcomes.extend(timed.map(|(n, times)| (entered[*n], Outcome::Timed(shortest(times)))));
            let usual = right.first() == Some(&0) && entered.first() == Some(&0);
            chosen = best(&times, usual).map(|best| entered[right[best]]);
            bytes = c.bytes;
        }
        // Each alone was accepted, and all together are not.
        Err(why) => outcomes.extend(entered.iter().map(|i| (*i, Outcome::Failed(why.clone())))),
    }
    let tried = |(i, cut): (usize, &Cut)| Tried {
        cut: *cut,
        outcome: outcomes.remove(&i).expect("each has one"),
    };
    Ok(Found {
        tried: cuts.iter().enumerate().map(tried).collect(),
        chosen,
        bytes,
    })
}

/// The variants of a shape's products in a program.
pub(super) fn variants(p: &Program, shape: Shape) -> impl Iterator<Item = Shader> {
    let steps = products(p, shape).into_iter().flatten();
    steps.map(|s| s.shader)
}

/// A contest that is loaded, and what is wrong with each of its cuts.
type Trial = (GpuProgram, Contest, Vec<Option<String>>);

/// Loads a contest and checks it; why not, where the device does not accept it.
fn trial(gpu: &Arc<Gpu>, mut c: Contest) -> Result<Result<Trial, String>> {
    let program = std::mem::replace(&mut c.program, Program::alone(vec![], vec![]));
    let checked = GpuProgram::load(gpu.clone(), program, &mut |_| ()).and_then(|g| {
        let wrong = c.check(&g)?;
        Ok((g, wrong))
    });
    match checked {
        Ok((g, wrong)) => Ok(Ok((g, c, wrong))),
        Err(e) if e.ends_device() => Err(e),
        Err(e) => Ok(Err(e.to_string())),
    }
}

/// The steps of a shape in the first plan that has it, product by product; of a matrix in several
/// shards only one, the largest.
fn products(p: &Program, shape: Shape) -> Vec<Vec<Step>> {
    let mut all: Vec<Vec<Step>> = Vec::new();
    for which in [Which::Decode, Which::PrefillLast] {
        for step in p.steps(which).filter(|s| s.shape == Some(shape)) {
            match all.last_mut() {
                Some(last) if last[0].label == step.label => last.push(step.clone()),
                _ => all.push(vec![step.clone()]),
            }
        }
        if !all.is_empty() {
            break;
        }
    }
    let rows = |steps: &[Step]| weights(p, &steps[0]).map_or(0, |(_, rows)| rows);
    let most = all.iter().map(|steps| rows(steps)).max().unwrap_or(0);
    all.retain(|steps| rows(steps) == most);
    all
}

/// The buffer with the weights of a product, and their rows.
fn weights(p: &Program, step: &Step) -> Option<(BufId, usize)> {
    let w = step.binds.iter().find(|b| b.name == "w")?;
    match &p.buffers[w.buf].init {
        Init::Rows { rows, .. } => Some((w.buf, *rows)),
        _ => None,
    }
}

impl Contest {
    fn new(
        programs: &[Program],
        cuts: &[Cut],
        which: &[usize],
        shape: Shape,
        effort: Effort,
        change: Option<Change>,
    ) -> Contest {
        let mut buffers = Buffers::default();
        let (mut body, mut groups, mut each) = (Vec::new(), Vec::new(), Vec::new());
        let (mut n, mut bytes) = (0, 0);
        for &i in which {
            let (p, start) = (&programs[i], body.len());
            let own = products(p, shape);
            let (buf, rows) = weights(p, &own[0][0]).expect("a product has weights");
            bytes = p.buffers[buf].bytes;
            let work = rows as u64 * u64::from(shape.k) * u64::from(shape.cols);
            let most = MOST.min((effort.work / work) as usize).max(1);
            n = (effort.bytes.div_ceil(bytes) as usize).clamp(1, most);
            for product in 0..n {
                for step in &own[product % own.len()] {
                    let mut step = step.clone();
                    for bind in &mut step.binds {
                        let b = &p.buffers[bind.buf];
                        bind.buf = buffers.take(b, bind.name, product / own.len());
                    }
                    if let Some(change) = change {
                        change(&cuts[i], &mut step);
                    }
                    body.push(step);
                }
            }
            each.push(own[0].len());
            groups.push(start..body.len());
        }
        Contest {
            program: Program::alone(buffers.filled(), body),
            groups,
            each,
            products: n,
            bytes,
            batch: Batch {
                cols: shape.cols,
                kv_len: 1,
            },
        }
    }

    /// Per cut: why it is wrong, if it is.
    fn check(&self, g: &GpuProgram) -> Result<Vec<Option<String>>> {
        let program = &g.program;
        let steps = &program.decode.body;
        let first = &steps[self.groups[0].start..][..self.each[0]];
        let out = first[0].binds.iter().find(|b| b.name == "out");
        let out = out.expect("a product writes out").buf;
        let before = words(&program.buffers[out]);
        let want = twin(program, first, out, self.batch)?;
        let known: Vec<usize> = (0..before.len())
            .filter(|i| want[*i] != before[*i])
            .collect();
        let pick = |all: &[u32]| known.iter().map(|i| all[*i]).collect::<Vec<u32>>();
        let mut right: Option<Vec<u32>> = None;
        let mut all = Vec::new();
        for (group, each) in self.groups.iter().zip(&self.each) {
            for step in &steps[group.start..][..*each] {
                for b in &step.binds {
                    if step.kernel().writes.contains(&b.name) {
                        g.write(b.buf, 0, &words(&program.buffers[b.buf]));
                    }
                }
            }
            for step in group.start..group.start + each {
                if let Some(commands) = g.record_step(Which::Decode, step, self.batch) {
                    g.gpu.submit(commands);
                }
            }
            let got = g.read(out)?;
            // The twin did some rows only; the others must be what a cut has that is right in those.
            let wrong = match &right {
                _ if known.is_empty() => Some("the twin wrote nothing".to_string()),
                _ => compare::compare(Kind::F32, &pick(&got), &pick(&want))
                    .or_else(|| compare::compare(Kind::F32, &got, right.as_ref()?))
                    .map(|d| format!("differs from its twin: {d}")),
            };
            if wrong.is_none() {
                right.get_or_insert(got);
            }
            all.push(wrong);
        }
        Ok(all)
    }

    /// Nanoseconds a product of each of these cuts, in every round. Cuts that have no hope are given up early.
    fn time(&self, g: &GpuProgram, cuts: &[usize], effort: Effort) -> Result<Vec<Vec<f64>>> {
        let mut times = vec![Vec::new(); cuts.len()];
        let mut alive: Vec<usize> = (0..cuts.len()).collect();
        if alive.is_empty() {
            return Ok(times);
        }
        let start = Instant::now();
        for round in 0..=effort.rounds {
            let groups: Vec<_> = alive
                .iter()
                .map(|i| self.groups[cuts[*i]].clone())
                .collect();
            let ns = g.time(Which::Decode, &groups, self.batch)?;
            if round == 0 {
                continue; // the driver may compile now
            }
            for (i, ns) in alive.iter().zip(&ns) {
                times[*i].push(ns / self.products as f64);
            }
            if round == TRIAL {
                let best = times.iter().map(|t| shortest(t)).fold(f64::MAX, f64::min);
                alive.retain(|i| *i == 0 || shortest(&times[*i]) <= HOPELESS * best);
            }
            if round >= 3 && start.elapsed() > effort.time || alive.len() == 1 {
                break;
            }
        }
        Ok(times)
    }
}

/// The cut to take: the fastest, but the usual one (the first, where `usual`) unless it is clearly beaten.
/// The shortest time of all rounds counts, since whatever else the machine does makes times longer; but
/// one lucky round is not enough.
fn best(times: &[Vec<f64>], usual: bool) -> Option<usize> {
    if !usual {
        let all = times.iter().map(|t| shortest(t)).enumerate();
        return all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i);
    }
    let mut best = (0, WIN);
    for (i, t) in times.iter().enumerate().skip(1) {
        let won = t.iter().zip(&times[0]).filter(|(a, b)| a < b).count();
        let ratio = shortest(t) / shortest(&times[0]);
        if ratio < best.1 && t.len() > TRIAL && 2 * won > t.len() {
            best = (i, ratio);
        }
    }
    Some(best.0)
}

fn shortest(v: &[f64]) -> f64 {
    v.iter().copied().fold(f64::MAX, f64::min)
}

/// Rows (first, number) that the twin does: all, or `n` at the start, in the middle and at the end. Pairs
/// of rows belong together; none comes twice.
fn windows(rows: usize, n: usize) -> Vec<(usize, usize)> {
    let n = n.max(2) / 2 * 2;
    if rows < 3 * n + 2 {
        return vec![(0, rows)];
    }
    let (middle, end) = ((rows - n) / 4 * 2, rows / 2 * 2 - n);
    vec![(0, n), (middle, n), (end, rows - end)]
}

/// The result of steps in rows at the start, in the middle and at the end, by the twin.
fn twin(program: &Program, steps: &[Step], out: BufId, batch: Batch) -> Result<Vec<u32>> {
    let (w, rows) = weights(program, &steps[0]).expect("a product has weights");
    let Init::Rows { matrix, first, .. } = &program.buffers[w].init else {
        unreachable!("weights are rows")
    };
    let per_row = matrix.k as u64 * u64::from(batch.cols);
    let windows = windows(rows, (TWIN_WORK / 3 / per_row) as usize);
    // Only what the steps bind is needed.
    let bound = |id: BufId| steps.iter().any(|s| s.binds.iter().any(|b| b.buf == id));
    let mut buffers = program.buffers.clone();
    for (id, b) in buffers.iter_mut().enumerate().filter(|(id, _)| !bound(*id)) {
        (b.bytes, b.init) = (16, Init::Zero);
        debug_assert_ne!(id, out);
    }
    let mut body = Vec::new();
    for (at, n) in windows {
        buffers.push(Buffer {
            init: Init::Rows {
                matrix: matrix.clone(),
                first: first + at,
                rows: n,
            },
            ..program.buffers[w].clone()
        });
        for step in steps {
            let mut step = step.clone();
            let binds = step.binds.iter_mut().filter(|b| b.buf == w);
            binds.for_each(|b| b.buf = buffers.len() - 1);
            set(&mut step, "rows", |_| n as u32);
            set(&mut step, "out_row", |old| old + at as u32);
            body.push(step);
        }
    }
    let mut cpu = Runner::new(Arc::new(Program::alone(buffers, body)));
    cpu.run(Which::Decode, batch);
    cpu.check()?;
    Ok(cpu.words(out).to_vec())
}

/// Changes a field of a step's parameters.
fn set(step: &mut Step, field: &str, f: impl Fn(u32) -> u32) {
    let at = step.kernel().fields.iter().position(|(n, _)| *n == field);
    let at = 4 * at.unwrap_or_else(|| panic!("{} has no {field}", step.shader));
    let bytes = &mut step.params[at..at + 4];
    let new = f(u32::from_le_bytes(bytes.try_into().expect("four bytes")));
    bytes.copy_from_slice(&new.to_le_bytes());
}

/// First contents of a buffer that is no matrix.
fn words(b: &Buffer) -> Vec<u32> {
    match &b.init {
        Init::F32(v) => bytemuck::cast_slice(v.as_slice()).to_vec(),
        Init::U32(v) => v.to_vec(),
        _ => vec![0; (b.bytes / 4) as usize],
    }
}

/// Buffers of several programs that are made from one model, brought together.
#[derive(Default)]
struct Buffers {
    all: Vec<Buffer>,
    /// Bound under a name whose numbers are of either sign.
    signed: Vec<bool>,
    /// By name, first row, and which copy of the weights.
    ids: HashMap<(String, usize, usize), BufId>,
}

impl Buffers {
    fn take(&mut self, b: &Buffer, bound_as: &str, copy: usize) -> BufId {
        let (first, copy) = match &b.init {
            Init::Rows { first, .. } => (*first, copy),
            _ => (0, 0),
        };
        let next = self.all.len();
        let id = *self
            .ids
            .entry((b.name.clone(), first, copy))
            .or_insert(next);
        if id == next {
            self.all.push(b.clone());
            self.signed.push(false);
        }
        self.all[id].bytes = self.all[id].bytes.max(b.bytes);
        self.signed[id] |= matches!(bound_as, "x" | "out");
        id
    }

    /// With numbers in place of the zeros that activations begin with.
    fn filled(mut self) -> Vec<Buffer> {
        let mut state = 1u64;
        let mut unit = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        for (b, signed) in self.all.iter_mut().zip(&self.signed) {
            if matches!(b.init, Init::Zero) {
                let mut number = || match signed {
                    true => 2.0 * unit() - 1.0,
                    false => 0.5 + unit(),
                };
                let v = (0..b.bytes / 4).map(|_| number()).collect();
                b.init = Init::F32(Arc::new(v));
            }
        }
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_winner_replaces_the_usual() {
        let usual = vec![100.0, 200.0, 100.0, 100.0];
        let of = |other: [f64; 4]| best(&[usual.clone(), other.to_vec()], true);
        assert_eq!(of([90.0, 180.0, 90.0, 90.0]), Some(1));
        assert_eq!(of([90.0, 190.0, 300.0, 90.0]), Some(1)); // one bad round
        assert_eq!(of([98.0, 196.0, 98.0, 98.0]), Some(0)); // 2 % could be chance
        assert_eq!(of([110.0, 110.0, 110.0, 110.0]), Some(0)); // faster than one slow round
        assert_eq!(of([90.0, 210.0, 120.0, 120.0]), Some(0)); // one lucky round
        let three = [usual.clone(), vec![90.0; 4], vec![80.0; 4]];
        assert_eq!(best(&three, true), Some(2));
        assert_eq!(best(&three, false), Some(2));
        assert_eq!(best(&[usual, vec![10.0; TRIAL]], true), Some(0)); // given up after the trial
        assert_eq!(best(&[], false), None);
    }

    #[test]
    fn the_twin_does_first_and_last_rows_and_none_twice() {
        for rows in 1..200 {
            for n in 0..70 {
                let all = windows(rows, n);
                let mut next = 0;
                for (first, n) in &all {
                    assert!(first.is_multiple_of(2) && *first >= next && *n > 0);
                    next = first + n;
                }
                assert_eq!((all[0].0, next), (0, rows), "{all:?}");
            }
        }
    }
}
