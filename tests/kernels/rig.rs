//! Runs cases on a device and on the CPU twins and compares every buffer that was written, whole:
//! live values, padding, stale columns and guard words alike.

use std::sync::Arc;
use tokstep::gpu::{Gpu, GpuProgram};
use tokstep::kernel::Shader;
use tokstep::kernel::params::Params;
use tokstep::plan::{
    Batch, Bind, BufId, Buffer, Dim, Init, Io, Plan, Pool, Program, Sizes, Step, Which,
};
use tokstep::reference::{Runner, compare};

/// What outputs hold before: a NaN no kernel makes. Who does not write must leave its very bits.
pub const POISON: u32 = 0x7fc0_beef;
/// What inputs hold where nothing may look: another NaN, so that one that got into a result shows.
pub const NAN: u32 = 0x7fc0_dead;
/// Words before and behind what a kernel may touch; before: one step of a binding's offset.
pub const GUARD: usize = 64;

/// Steps on buffers of their own.
#[derive(Clone)]
pub struct Case {
    /// Shown when it fails.
    pub label: String,
    /// First contents included.
    pub buffers: Vec<Buffer>,
    /// In order; their bindings are numbers of `buffers`.
    pub steps: Vec<Step>,
    /// What the grids are filled in with.
    pub batch: Batch,
}

impl Case {
    pub fn new(label: String, cols: u32, kv_len: u32) -> Case {
        Case {
            label,
            buffers: Vec::new(),
            steps: Vec::new(),
            batch: Batch { cols, kv_len },
        }
    }

    pub fn buffer(&mut self, init: Init, bytes: usize, texture: Option<u32>) -> BufId {
        self.buffers.push(Buffer {
            name: format!("{} #{}", self.label, self.buffers.len()),
            pool: Pool::Scratch,
            bytes: bytes.next_multiple_of(16) as u64,
            texture,
            layers: 0,
            init,
        });
        self.buffers.len() - 1
    }

    /// Words as they are.
    pub fn words(&mut self, v: Vec<u32>) -> BufId {
        let n = v.len() * 4;
        self.buffer(Init::U32(Arc::new(v)), n, None)
    }

    /// Numbers as they are.
    pub fn floats(&mut self, v: &[f32]) -> BufId {
        self.words(v.iter().map(|v| v.to_bits()).collect())
    }

    /// Words between guards of `filler`; to be bound with [`Case::bind_guarded`]. `least`: words the
    /// binding needs, for a uniform one.
    pub fn guarded(&mut self, live: &[u32], filler: u32, least: usize) -> BufId {
        let mut v = vec![filler; GUARD];
        v.extend(live);
        v.resize(
            (v.len() + GUARD).max(GUARD + least).next_multiple_of(4),
            filler,
        );
        self.words(v)
    }

    /// A KV cache: as its words between guards, or where the device has it as a texture, filled up to whole
    /// layers of four pages of `page` words. To be bound with [`Case::bind_cache`].
    pub fn cache(&mut self, mut words: Vec<u32>, filler: u32, texture: bool, page: usize) -> BufId {
        if !texture {
            return self.guarded(&words, filler, 0);
        }
        let layers = words.len().div_ceil(4 * page);
        words.resize(layers * 4 * page, filler);
        let n = words.len() * 4;
        let id = self.buffer(Init::U32(Arc::new(words)), n, Some(6));
        self.buffers[id].layers = layers as u32;
        id
    }

    /// Binds a cache.
    pub fn bind_cache(&self, name: &'static str, buf: BufId) -> Bind {
        match self.buffers[buf].texture {
            Some(_) => bind(name, buf),
            None => bind_guarded(name, buf),
        }
    }

    pub fn step<P: Params>(&mut self, shader: Shader, params: P, binds: Vec<Bind>, grid: [Dim; 3]) {
        let label = self.label.clone();
        self.steps
            .push(Step::new(label, shader, params, binds, grid));
    }

    /// Buffers that any step writes: (kernel, binding, buffer).
    pub fn written(&self) -> Vec<(&'static str, &'static str, BufId)> {
        let mut all: Vec<(_, _, BufId)> = Vec::new();
        for step in &self.steps {
            for b in &step.binds {
                if step.kernel().writes.contains(&b.name) && all.iter().all(|(.., id)| *id != b.buf)
                {
                    all.push((step.shader.kernel, b.name, b.buf));
                }
            }
        }
        all
    }
}

/// A whole buffer bound.
pub fn bind(name: &'static str, buf: BufId) -> Bind {
    Bind {
        name,
        buf,
        offset: 0,
    }
}

/// A buffer of [`Case::guarded`] bound behind its first guard.
pub fn bind_guarded(name: &'static str, buf: BufId) -> Bind {
    bind_at(name, buf, 0)
}

/// The same from word `word` of the live part on.
pub fn bind_at(name: &'static str, buf: BufId, word: u32) -> Bind {
    Bind {
        name,
        buf,
        offset: 4 * (GUARD as u64 + u64::from(word)),
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
    let plan = |name, body| Plan {
        name,
        width: 1,
        body,
        tail: vec![],
    };
    Program {
        buffers,
        decode: plan("decode", body),
        prefill: plan("prefill", vec![]),
        logits: plan("logits", vec![]),
        // No engine runs this program, so nothing looks at these.
        io: Io {
            cols: 0,
            prompt_cols: 0,
            prompt_rows: 0,
            pages: 0,
            slots: 0,
            history: 0,
            ring: 0,
            logits: 0,
        },
        sizes: Sizes {
            context: 1,
            slots: 1,
            chunk: 1,
            logits_cols: 1,
            width: 1,
            pages_per_slot: 1,
            logits_stride: 1,
            hdp: 8,
        },
    }
}

/// Runs `device[i]` on the device and `twin[i]` on the twins; per case what differs. The two are the
/// same, except where an error is planted.
pub fn run(gpu: &Arc<Gpu>, device: &[Case], twin: &[Case]) -> Vec<Vec<String>> {
    let g =
        GpuProgram::load(gpu.clone(), join(device), &mut |_| ()).unwrap_or_else(|e| panic!("{e}"));
    let mut cpu = Runner::new(Arc::new(join(twin)));
    let twins = cpu.program().clone();
    let mut step = 0;
    for (d, t) in device.iter().zip(twin) {
        for _ in &d.steps {
            if let Some(commands) = g.record_step(Which::Decode, step, d.batch) {
                gpu.submit(commands);
            }
            cpu.step(&twins.decode.body[step], t.batch);
            step += 1;
        }
    }
    let mut first = 0;
    let mut all = Vec::new();
    for case in device {
        let check = |(kernel, name, id): (&'static str, &'static str, BufId)| {
            let got = g.read(first + id).unwrap_or_else(|e| panic!("{e}"));
            let want = cpu.words(first + id);
            let difference =
                compare::compare(compare::kind(kernel, name), &got, want).map(|d| d.to_string());
            let problem =
                difference.or_else(|| untouched(&twins.buffers[first + id], &got, want))?;
            Some(format!("{}: {name} of {kernel}: {problem}", case.label))
        };
        all.push(case.written().into_iter().filter_map(check).collect());
        first += case.buffers.len();
    }
    all
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
