//! Runs cases on a device and on the CPU twins and compares every buffer that was written, whole:
//! live values, padding, stale columns and guard words alike.

use std::sync::Arc;

use super::case::{Case, POISON};
use crate::Result;
use crate::gpu::{Gpu, GpuProgram};
use crate::kernel::Shader;
use crate::plan::{Batch, Buffer, Init, Program, Which};
use crate::reference::{Runner, compare};

/// What a device got wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The variant at fault: of all that differs in a case, what was computed first.
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

/// Runs `device[i]` on the device, `repeat` times, and `twin[i]` on the twins; per case the first kernel that
/// differs, once for each run in which one did. The two are the same, except where an error is planted.
pub fn run(
    gpu: &Arc<Gpu>,
    device: &[Case],
    twin: &[Case],
    repeat: u32,
) -> Result<Vec<Vec<Failure>>> {
    let g = GpuProgram::load(gpu.clone(), join(device), &mut |_| ())?;
    let mut cpu = Runner::new(Arc::new(join(twin)));
    let twins = cpu.program().clone();
    let batches = |cases: &[Case]| -> Vec<Batch> {
        let each = |c: &Case| vec![c.batch; c.steps.len()];
        cases.iter().flat_map(each).collect()
    };
    for (step, batch) in twins.decode.body.iter().zip(batches(twin)) {
        cpu.step(step, batch);
    }
    let batches = batches(device);
    let mut all = vec![Vec::new(); device.len()];
    for run in 1..=repeat {
        if run > 1 {
            restore(&g, device);
        }
        for (step, batch) in batches.iter().enumerate() {
            if let Some(commands) = g.record_step(Which::Decode, step, *batch) {
                gpu.submit(commands);
            }
        }
        let mut first = 0;
        for (case, failures) in device.iter().zip(&mut all) {
            for (step, name, id) in case.written() {
                let got = g.read(first + id)?;
                let want = cpu.words(first + id);
                let shader = &case.steps[step].shader;
                let kind = compare::kind(shader.kernel, name);
                let difference = compare::compare(kind, &got, want).map(|d| d.to_string());
                let problem =
                    difference.or_else(|| untouched(&twins.buffers[first + id], &got, want));
                if let Some(problem) = problem {
                    failures.push(Failure {
                        shader: shader.clone(),
                        case: case.label.clone(),
                        run,
                        detail: format!("{name} of {}: {problem}", shader.kernel),
                    });
                    break; // what comes behind it had wrong numbers to work with
                }
            }
            first += case.buffers.len();
        }
    }
    Ok(all)
}

/// Gives what was written its first contents again (but for textures, which are not added to).
fn restore(g: &GpuProgram, cases: &[Case]) {
    let mut first = 0;
    for case in cases {
        for (.., id) in case.written() {
            let b = &case.buffers[id];
            if let (Init::U32(v), None) = (&b.init, b.texture) {
                g.write(first + id, 0, v);
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
        // The sampler's mark for logits that are no numbers is such a word.
        let mark = u32::MAX;
        if want[i] != mark {
            return Some(format!("the twin's word {i} is NaN"));
        }
    }
    (!(0..want.len()).any(|i| changed(&i))).then(|| "the twin wrote nothing".into())
}

