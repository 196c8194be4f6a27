//! Runs cases on a device and on the CPU twins and compares every buffer that was written, whole:
//! live values, padding, stale columns and guard words alike.

use std::sync::Arc;

use super::case::{Case, POISON};
use crate::Result;
use crate::gpu::{Gpu, GpuProgram};
use crate::kernel::Shader;
use crate::plan::{Buffer, Init, Program, Which};
use crate::reference::{Runner, compare};

/// What a device got wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The variant at fault.
    pub shader: Shader,
    /// In which case.
    pub case: String,
    /// In which of the repetitions, from 1 on.
    pub run: u32,
    /// Binding and element, what it is and what it should be.
    pub detail: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure {
            shader,
            case,
            run,
            detail,
        } = self;
        write!(f, "{shader}, run {run}, {case}: {detail}")
    }
}

/// One program of all cases: its decode plan has their steps one after the other.
fn join(cases: &[Case]) -> Program {
    let (mut buffers, mut body) = (Vec::new(), Vec::new());
    for case in cases {
        for step in &case.steps {
            let mut step = step.clone();
            step.binds.iter_mut().for_each(|b| b.buf += buffers.len());
            body.push(step);
        }
        buffers.extend(case.buffers.iter().cloned());
    }
    Program::alone(buffers, body)
}

/// What came of a run, however it ended.
#[derive(Default)]
pub struct Ran {
    /// Per case each result that differed, in each repetition.
    pub failures: Vec<Vec<Failure>>,
    /// Whole repetitions; fewer than were asked for: it was not to go on, or could not.
    pub runs: u32,
}

/// Runs `device[i]` on the device, `repeat` times, and `twin[i]` on the twins; per case each result that
/// differs, in each run. The two are the same, except where an error is planted.
pub fn run(
    gpu: &Arc<Gpu>,
    device: &[Case],
    twin: &[Case],
    repeat: u32,
) -> Result<Vec<Vec<Failure>>> {
    let mut ran = Ran::default();
    run_while(gpu, device, twin, repeat, &mut || true, &mut ran)?;
    Ok(ran.failures)
}

/// The same as long as `go_on` says so, which is asked before each case. What was found is in `ran` after an error,
/// too.
pub fn run_while(
    gpu: &Arc<Gpu>,
    device: &[Case],
    twin: &[Case],
    repeat: u32,
    go_on: &mut dyn FnMut() -> bool,
    ran: &mut Ran,
) -> Result<()> {
    *ran = Ran {
        failures: vec![Vec::new(); device.len()],
        runs: 0,
    };
    if !go_on() {
        return Ok(());
    }
    let g = GpuProgram::load(gpu.clone(), join(device), &mut |_| ())?;
    let mut cpu = Runner::new(Arc::new(join(twin)));
    let twins = cpu.program().clone();
    let batches = twin.iter().flat_map(|c| vec![c.batch; c.steps.len()]);
    for (step, batch) in twins.decode.body.iter().zip(batches) {
        if !go_on() {
            return Ok(());
        }
        cpu.step(step, batch);
    }
    for run in 1..=repeat {
        if run > 1 {
            restore(&g, device);
        }
        let (mut first, mut step) = (0, 0);
        for (case, failures) in device.iter().zip(&mut ran.failures) {
            if !go_on() {
                return Ok(());
            }
            let written = case.written();
            for i in 0..case.steps.len() {
                if let Some(commands) = g.record_step(Which::Decode, step, case.batch) {
                    gpu.submit(commands);
                }
                step += 1;
                for w in written.iter().filter(|w| w.last == i) {
                    let (id, shader) = (first + w.buf, &case.steps[i].shader);
                    let (got, want) = (g.read(id)?, cpu.words(id));
                    let kind = compare::kind(shader.kernel, w.name);
                    let difference = compare::compare(kind, &got, want).map(|d| d.to_string());
                    let problem = difference.or_else(|| untouched(&twins.buffers[id], &got, want));
                    let Some(problem) = problem else { continue };
                    failures.push(Failure {
                        shader: shader.clone(),
                        case: case.label.clone(),
                        run,
                        detail: format!("{} of {}: {problem}", w.name, shader.kernel),
                    });
                    // What comes behind it is to have the right numbers to work with.
                    if twins.buffers[id].texture.is_none() {
                        g.write(id, 0, want);
                    }
                }
            }
            first += case.buffers.len();
        }
        ran.runs = run;
    }
    Ok(())
}

/// Gives what was written its first contents again (but for textures, which are not added to).
fn restore(g: &GpuProgram, cases: &[Case]) {
    let mut first = 0;
    for case in cases {
        for w in case.written() {
            let b = &case.buffers[w.buf];
            if let (Init::U32(v), None) = (&b.init, b.texture) {
                g.write(first + w.buf, 0, v);
            }
        }
        first += case.buffers.len();
    }
}

/// What a comparison that takes any NaN for any other cannot see: poison that was written over, and
/// a twin that wrote nothing or made a NaN itself, which would prove nothing.
fn untouched(b: &Buffer, got: &[u32], want: &[u32]) -> Option<String> {
    let Init::U32(before) = &b.init else {
        panic!("{} is written and has no words", b.name)
    };
    let changed = |i: &usize| want[*i] != before[*i];
    if let Some(i) = (0..want.len()).find(|i| want[*i] == POISON && got[*i] != POISON) {
        return Some(format!("word {i} was written, with a NaN"));
    }
    if let Some(i) = (0..want.len())
        .filter(changed)
        .find(|i| f32::from_bits(want[*i]).is_nan())
    {
        return Some(format!("the twin's word {i} is NaN"));
    }
    (!(0..want.len()).any(|i| changed(&i))).then(|| "the twin wrote nothing".into())
}
