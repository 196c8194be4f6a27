//! Loading: file, device, plan, upload and pipelines with a first dispatch, the tokenizer beside it.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::fitting::{Memory, fitting};
use super::generate::GenerateOptions;
use super::governor::PaceOptions;
use super::info::{self, EngineInfo};
use super::kernels;
use super::pace::{Pace, PaceReport};
use super::prove::{Proven, Verified, prove, verify};
use super::quarantine::Quarantine;
use super::recover::Losses;
use super::scheduler::{Scheduler, gone};
use super::session::Session;
use super::tune::{self, Tune, TuneOptions, TuneReport};
use crate::gguf::Gguf;
use crate::gpu::{Again, Fault, Gpu, GpuProgram, HostTimes, Limits, Loading, StepTime};
use crate::kernel::Caps;
use crate::model::Model;
use crate::plan::sizes::Wish;
use crate::plan::{self, Program, Sizes};
use crate::selftest::PARTS;
use crate::text::{ChatTemplate, Tokenizer};
use crate::{Error, Result};

/// How to load. The defaults run one sequence on the best device with the model's context.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Adapter by number or by a part of its name; `None`: the best one.
    pub device: Option<String>,
    /// The limits the device is opened with.
    pub limits: Limits,
    /// Context in positions; `None`: the model's, as far as its cache is no larger than 1 GiB and the
    /// device has room.
    pub context: Option<u32>,
    /// Take the largest context that fits, up to `context` or the model's.
    pub largest: bool,
    /// Bytes the device is taken to have left; `None`: as many as it says.
    pub memory: Option<u64>,
    /// Sequences side by side.
    pub slots: u32,
    /// Decode steps per submit.
    pub steps_per_submit: u32,
    /// Prompt tokens per chunk; `None`: by device.
    pub prefill_chunk: Option<u32>,
    /// Compare every step with its CPU twin (slow).
    pub verify: bool,
    /// Folder in which compiled pipelines are kept for the next load; `None`: they are not kept.
    pub cache: Option<PathBuf>,
    /// Folder in which is kept which kernel variants are right on which device. Those of which nothing is known
    /// are tested before they are used, those that failed are not used; `None`: neither.
    pub proofs: Option<PathBuf>,
    /// A variant that is to give wrong numbers, as [`Fault`](crate::gpu::Fault) reads it: to test all this.
    pub fault: Option<String>,
    /// Whether products are cut as measurement found best.
    pub tuning: Tune,
    /// Changes what the engine believes of the device, to try other kernel variants.
    pub adjust: Option<fn(&mut Caps)>,
    /// Speed, power and temperature that are not to be exceeded.
    pub pace: PaceOptions,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            device: None,
            limits: Limits::Adapter,
            context: None,
            largest: false,
            memory: None,
            slots: 1,
            steps_per_submit: 8,
            prefill_chunk: None,
            verify: false,
            cache: None,
            proofs: None,
            fault: None,
            tuning: Tune::Off,
            adjust: None,
            pace: PaceOptions::default(),
        }
    }
}

/// What a load is doing.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum LoadStage {
    /// Kernel variants tested before their first use on this device; at most a few seconds.
    Proofs { done: u32, total: u32 },
    /// Shapes of products measured; at most a few seconds, and only on a first load.
    Tuning { done: u32, total: u32 },
    /// Bytes of weights repacked and uploaded.
    Weights { done: u64, total: u64 },
    /// Plan steps bound to their pipelines, and at the end the driver's compilation.
    Pipelines { done: u32, total: u32 },
}

/// A model on a device.
pub struct Engine {
    pub(super) scheduler: RefCell<Scheduler>,
    pub(super) options: EngineOptions,
    pub(super) model: Arc<Model>,
    /// The device, also after a loss.
    pub(super) again: Again,
    /// The same while it is there: apart from the scheduler, so that it can be asked at any time.
    pub(super) gpu: RefCell<Weak<Gpu>>,
    pub(super) losses: RefCell<Losses>,
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    info: EngineInfo,
}

impl Engine {
    /// Loads a GGUF file. `progress` is called often.
    pub fn load(
        path: &Path,
        o: &EngineOptions,
        progress: &mut dyn FnMut(LoadStage),
    ) -> Result<Engine> {
        let start = Instant::now();
        Engine::begin(start, &Gguf::open(path)?, o, progress)
    }

    /// Loads a model that is open already, or that has no file ([`synth`](mod@crate::synth)).
    pub fn load_gguf(
        gguf: &Gguf,
        o: &EngineOptions,
        progress: &mut dyn FnMut(LoadStage),
    ) -> Result<Engine> {
        Engine::begin(Instant::now(), gguf, o, progress)
    }

    fn begin(
        start: Instant,
        gguf: &Gguf,
        o: &EngineOptions,
        progress: &mut dyn FnMut(LoadStage),
    ) -> Result<Engine> {
        let ms = |from: Instant| from.elapsed().as_secs_f64() * 1e3;
        let pace = Pace::open(&o.pace)?;
        let model = Model::from_gguf(gguf)?;
        // The tokenizer is work for one core, which no later step waits for.
        let text = || {
            let start = Instant::now();
            let tokenizer = Tokenizer::from_gguf(gguf)?;
            if tokenizer.n_vocab() > model.hyper.n_vocab as usize {
                return Err(Error::VocabTooLarge {
                    path: gguf.path().to_path_buf(),
                    tokens: tokenizer.n_vocab(),
                    rows: model.hyper.n_vocab,
                });
            }
            Ok((tokenizer, ChatTemplate::from_gguf(gguf)?, ms(start)))
        };
        let (text, loaded) = std::thread::scope(|s| {
            let text = s.spawn(text);
            let describe = |gpu: &Gpu, p: &Program| info::describe(gguf, &model, gpu, p);
            let loaded = on_device(&describe, &model, o, None, start, progress);
            let text = text.join();
            (text.unwrap_or_else(|e| resume_unwind(e)), loaded)
        });
        // The file is at fault before the device is.
        let (tokenizer, template, tokenizer_ms) = text?;
        let (mut scheduler, mut info) = loaded?;
        scheduler.pace = pace;
        let gpu = scheduler.program().gpu.clone();
        info.load.tokenizer_ms = tokenizer_ms;
        info.load_ms = ms(start);
        Ok(Engine {
            scheduler: RefCell::new(scheduler),
            options: o.clone(),
            model: Arc::new(model),
            again: gpu.again(),
            gpu: RefCell::new(Arc::downgrade(&gpu)),
            losses: RefCell::default(),
            tokenizer: Arc::new(tokenizer),
            template,
            info,
        })
    }

    /// Measures how products of a model are best cut on a device, all anew, and keeps what was found in
    /// the folder of `o.tuning`, if there is one.
    pub fn tune(
        gguf: &Gguf,
        o: &EngineOptions,
        t: &TuneOptions,
        progress: &mut dyn FnMut(LoadStage),
    ) -> Result<TuneReport> {
        let model = Model::from_gguf(gguf)?;
        let (gpu, program) = open(&model, o, None)?;
        let known = quarantine(&gpu, o);
        tune::anew(
            &gpu,
            &model,
            &program,
            &known,
            t,
            o.tuning.folder(),
            &mut |n, of| {
                let (done, total) = (n as u32, of as u32);
                progress(LoadStage::Tuning { done, total });
            },
        )
    }

    /// Runs every kernel variant that the device of `o` could use against the CPU twins, over the whole case
    /// table, `repeat` times; keeps what was found in `o.proofs`. `go_on(part, done, total)`, of parts of
    /// the table, is asked before each case and each time it is run again: `false` ends it, and what did not run to the end is not
    /// taken down as right.
    pub fn verify_device(
        o: &EngineOptions,
        repeat: u32,
        go_on: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<Verified> {
        Engine::verify_device_parts(o, &PARTS, repeat, go_on)
    }

    /// The same over some parts of the table.
    pub fn verify_device_parts(
        o: &EngineOptions,
        parts: &[&'static str],
        repeat: u32,
        go_on: &mut dyn FnMut(&'static str, usize, usize) -> bool,
    ) -> Result<Verified> {
        let mut gpu = Gpu::open_limited(o.device.as_deref(), o.cache.as_deref(), o.limits)?;
        if let (Some(text), Some(gpu)) = (&o.fault, Arc::get_mut(&mut gpu)) {
            gpu.fault = Some(fault(text)?);
        }
        let mut known = quarantine(&gpu, o);
        verify(&gpu, parts, repeat, &mut known, go_on)
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model's chat template, if the file has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// What was loaded, and onto what.
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// What was asked of the device so far: (allocations, bind groups, pipelines, submits,
    /// dispatches, readbacks).
    pub fn counts(&self) -> [u64; 6] {
        self.again.counts.snapshot()
    }

    /// An empty sequence in a slot of its own.
    pub fn session(&self) -> Result<Session<'_>> {
        let slot = self.scheduler.borrow_mut().acquire()?;
        Ok(Session::new(self, slot))
    }

    /// What was idled so far to hold the limits of [`EngineOptions::pace`]; `None` without any.
    pub fn pace(&self) -> Option<PaceReport> {
        self.scheduler
            .borrow()
            .pace
            .as_ref()
            .map(|p| p.report().clone())
    }

    /// Bytes the device's allocator has handed out and reserved, where the backend tells.
    pub fn allocated(&self) -> Option<[u64; 2]> {
        self.gpu().ok()?.allocated()
    }

    /// Steps compared with their CPU twins so far, when loaded with `verify`.
    pub fn verified(&self) -> Option<u64> {
        self.scheduler.borrow().verified()
    }

    /// Time of every dispatch of a decode step of all slots, each after `prompt`, the medians of five
    /// steps; `None` where the device has no timestamps. No session may hold a slot.
    pub fn step_times(&self, prompt: &[u32]) -> Result<Option<Vec<StepTime>>> {
        if !self.gpu()?.has_timestamps() {
            return Ok(None);
        }
        let context = self.info.context;
        if prompt.len() + 6 > context as usize {
            return Err(Error::PromptTooLong {
                tokens: prompt.len(),
                held: 6,
                context,
            });
        }
        let one = GenerateOptions {
            max_tokens: Some(8),
            ignore_eos: true,
            ..Default::default()
        };
        let mut sessions = (0..self.options.slots.max(1))
            .map(|_| self.session())
            .collect::<Result<Vec<_>>>()?;
        for session in &mut sessions {
            session.prefill(prompt)?;
        }
        // Begun answers, whose slots are active.
        let _answers = sessions
            .iter_mut()
            .map(|s| s.generate(&one))
            .collect::<Result<Vec<_>>>()?;
        let mut scheduler = self.scheduler.borrow_mut();
        let runs = (0..5)
            .map(|_| scheduler.profile())
            .collect::<Result<Vec<_>>>()?;
        drop(scheduler);
        let median = |i: usize| {
            let mut ns: Vec<f64> = runs.iter().map(|r| r[i].ns).collect();
            ns.sort_by(f64::total_cmp);
            ns[ns.len() / 2]
        };
        let mut times = runs[0].clone();
        for (i, t) in times.iter_mut().enumerate() {
            t.ns = median(i);
        }
        Ok(Some(times))
    }

    /// Several sequences side by side are driven through the scheduler itself.
    pub fn scheduler(&self) -> std::cell::RefMut<'_, Scheduler> {
        self.scheduler.borrow_mut()
    }

    /// Bytes per second the device reads while copying, measured now.
    pub fn copy_bandwidth(&self) -> Result<f64> {
        let gpu = self.gpu()?;
        gpu.copy_bandwidth(kernels::copy_bytes(&gpu))
    }

    /// Floating-point operations per second of the device (two to a multiply-add), measured now.
    pub fn peak_flops(&self) -> Result<f64> {
        self.gpu()?.peak_flops()
    }

    pub(super) fn gpu(&self) -> Result<Arc<Gpu>> {
        let gpu = self.gpu.borrow().upgrade();
        gpu.ok_or_else(|| gone(&self.again.name))
    }

    /// What the host spent on driving the device so far.
    pub fn host_times(&self) -> HostTimes {
        self.again.host.times()
    }
}

/// The part of a load that needs the device.
pub(super) fn on_device(
    describe: &dyn Fn(&Gpu, &Program) -> EngineInfo,
    model: &Model,
    o: &EngineOptions,
    again: Option<&Again>,
    start: Instant,
    progress: &mut dyn FnMut(LoadStage),
) -> Result<(Scheduler, EngineInfo)> {
    let (mut gpu, program) = open(model, o, again)?;
    let mut known = quarantine(&gpu, o);
    let (tuning, tuned) = tune::tuning(&gpu, model, &program, &o.tuning, &known, &mut |n, of| {
        let (done, total) = (n as u32, of as u32);
        progress(LoadStage::Tuning { done, total });
    })?;
    let sizes = program.sizes;
    let program = plan::build_tuned(model, &gpu.caps, sizes, &tuning);
    let mut proven = Proven::without_proof(program);
    // A program around what is in quarantine is cut as usual.
    let as_usual = Cell::new(false);
    if o.proofs.is_some() {
        let build = |caps: &Caps| {
            as_usual.set(true);
            plan::fit(model, caps, as_is(sizes))
        };
        proven = prove(
            &mut gpu,
            proven.program,
            &build,
            &mut known,
            &mut |done, total| {
                progress(LoadStage::Proofs { done, total });
            },
        )?;
        proven.quarantined = known.all();
    }
    let program = proven.program;
    let mut info = describe(&gpu, &program);
    info.quarantined = proven.quarantined;
    info.without = proven.levers;
    info.tune_ms = tuned.ms;
    if !as_usual.get() {
        info.tuned = tune::changes(&gpu.caps, &tuning);
    }
    info.load.open_ms = start.elapsed().as_secs_f64() * 1e3;
    let wanted = match (o.context, o.largest) {
        (Some(context), _) => context,
        (None, true) => model.hyper.context,
        (None, false) => Sizes::fit(&model.hyper, &gpu.caps, wish(o))?.context,
    };
    info.wanted_context = (info.context < wanted).then_some(wanted);
    let before = gpu.pools.snapshot();
    let total = info.matrix_bytes;
    let mut done = 0;
    let program = GpuProgram::load_warm(gpu.clone(), program, &mut |l| match l {
        Loading::Weights(n) => {
            done += n;
            progress(LoadStage::Weights { done, total });
        }
        Loading::Steps(done, total) => progress(LoadStage::Pipelines { done, total }),
    })?;
    info.load.device = program.times;
    let mut scheduler = Scheduler::new(Arc::new(program))?;
    info.allocated = Memory::since(&before, &gpu.pools.snapshot());
    if o.verify {
        scheduler.verify()?;
    }
    Ok((scheduler, info))
}

/// What is known of the device's variants.
fn quarantine(gpu: &Gpu, o: &EngineOptions) -> Quarantine {
    let dir = o.proofs.as_deref();
    Quarantine::of(dir, &gpu.name, &gpu.driver, &gpu.backend)
}

/// The wish for what is there already.
fn as_is(s: Sizes) -> Wish {
    Wish {
        context: Some(s.context),
        slots: s.slots,
        chunk: Some(s.chunk),
    }
}

/// The device and the program that options ask for, not tuned; a lost device is opened `again`.
fn open(model: &Model, o: &EngineOptions, again: Option<&Again>) -> Result<(Arc<Gpu>, Program)> {
    let cache = o.cache.as_deref();
    let mut gpu = match again {
        Some(again) => Gpu::reopen(again, cache, o.limits)?,
        None => Gpu::open_limited(o.device.as_deref(), cache, o.limits)?,
    };
    if let Some(gpu) = Arc::get_mut(&mut gpu) {
        if let Some(adjust) = o.adjust {
            adjust(&mut gpu.caps);
        }
        if o.memory.is_some() {
            (gpu.memory, gpu.memory_source) = (o.memory, "as the load's options say");
        }
    }
    if let (Some(text), Some(gpu)) = (&o.fault, Arc::get_mut(&mut gpu)) {
        gpu.fault = Some(fault(text)?);
    }
    let program = fitting(model, &gpu.caps, gpu.memory, wish(o), o.largest)?;
    Ok((gpu, program))
}

fn fault(text: &str) -> Result<Fault> {
    text.parse().map_err(|reason| Error::Fault {
        text: text.into(),
        reason,
    })
}

fn wish(o: &EngineOptions) -> Wish {
    Wish {
        context: o.context,
        slots: o.slots,
        chunk: o.prefill_chunk,
    }
}
