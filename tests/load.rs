//! Loading: what is made once, what a failure in one of its threads leaves behind, and a KV cache of
//! which no more is bound than is in use.

mod common;

use std::collections::HashSet;
use std::path::PathBuf;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, LoadStage, Memory, SampleOptions};
use tokstep::gguf::Gguf;
use tokstep::gpu::{Gpu, GpuProgram, PARAMS_BYTES, Staging};
use tokstep::model::Model;
use tokstep::plan::sizes::Wish;
use tokstep::plan::{self, Pool};
use tokstep::{Error, Result};

fn load(o: EngineOptions, progress: &mut dyn FnMut(LoadStage)) -> Result<Engine> {
    let o = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        ..o
    };
    let path: PathBuf = common::case("cases/models").join("llama_q4_k.gguf");
    Engine::load(&path, &o, progress)
}

fn every_shader_is_compiled_once_and_progress_reaches_its_end() {
    let (mut weights, mut steps) = ((0, 1), (0, 1));
    let e = load(EngineOptions::default(), &mut |stage| match stage {
        LoadStage::Weights { done, total } => weights = (done, total),
        LoadStage::Pipelines { done, total } => steps = (done, total),
        LoadStage::Proofs { .. } | LoadStage::Tuning { .. } => panic!("nobody asked for it"),
    });
    let e = e.unwrap();
    let scheduler = e.scheduler();
    let p = &scheduler.program().program;
    let all: Vec<_> = [&p.decode, &p.prefill]
        .into_iter()
        .flat_map(|p| p.steps())
        .collect();
    let distinct: HashSet<_> = all.iter().map(|s| s.shader.clone()).collect();
    assert_eq!(e.counts()[2], distinct.len() as u64, "pipelines");
    assert_eq!(weights.0, weights.1, "bytes");
    assert_eq!(steps, (all.len() as u32, all.len() as u32), "steps");
    let load = e.info().load;
    for ms in [load.open_ms, load.tokenizer_ms, load.device.weights_ms] {
        assert!(ms > 0.0 && ms <= e.info().load_ms, "{load:?}");
    }
    assert!(load.device.compile_ms > 0.0, "{load:?}");
    let more: HashSet<_> = p.logits.steps().map(|s| s.shader.clone()).collect();
    let all = (distinct.len() + more.len()) as u64;
    drop(scheduler);
    // Those for the logits of every token come with the first use, once.
    let mut seen = 0;
    for _ in 0..2 {
        let mut session = e.session().unwrap();
        session.logits(&[1, 2, 3], &mut |_, _| seen += 1).unwrap();
        assert_eq!(e.counts()[2], all, "pipelines");
    }
    assert_eq!(seen, 6);
}

fn a_pipeline_that_fails_ends_the_load_and_is_named() {
    let options = EngineOptions {
        adjust: Some(|caps| {
            // Workgroups that no device has.
            (caps.software, caps.subgroups) = (false, false);
            (caps.subgroup_max, caps.max_lanes) = (1 << 20, 1 << 20);
        }),
        ..Default::default()
    };
    match load(options, &mut |_| ()).map(|_| ()) {
        Err(e @ Error::Shader { .. }) => {
            let text = e.to_string();
            assert!(text.contains("matvec") && text.contains("WG="), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// Every place where more of the cache gets bound is passed in the middle of steps recorded ahead.
/// What commands do not bind, they could neither write nor read.
fn nothing_depends_on_how_much_of_the_cache_is_bound() {
    let prompt: Vec<u32> = (0..230).map(|i| (i * 7 + i * i) % 50).collect();
    let run = |steps_per_submit, all: bool| {
        let options = EngineOptions {
            context: Some(1024),
            steps_per_submit,
            ..Default::default()
        };
        let e = load(options, &mut |_| ()).unwrap();
        let mut s = e.session().unwrap();
        if all {
            e.scheduler().program().use_pages(1024 / 64, false);
        }
        s.prefill(&prompt).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(321),
            sample: SampleOptions {
                temp: 0.0,
                ..Default::default()
            },
            ignore_eos: true,
            ..Default::default()
        };
        let pieces = s.generate(&o).unwrap();
        let ids: Vec<u32> = pieces.flat_map(|p| p.unwrap().ids).collect();
        let scheduler = e.scheduler();
        let p = scheduler.program();
        let buffers = p.program.buffers.iter().enumerate();
        let kv = buffers.filter(|(_, b)| b.pool == Pool::Kv);
        let cache: Vec<Vec<u32>> = kv.map(|(id, _)| p.read(id).unwrap()).collect();
        (ids, cache)
    };
    let (ids, cache) = run(1, true);
    assert_eq!(ids.len(), 321);
    assert!(cache.iter().all(|words| words.iter().any(|w| *w != 0)));
    for steps in [8, 5] {
        let got = run(steps, false);
        assert_eq!(got.0, ids, "{steps} steps per submit");
        // Positions that a last submit computed too many differ, in the page of the last token.
        for (got, want) in got.1.iter().zip(&cache) {
            let page = want.len() / 16;
            let whole = (230 + 321) / 64 * page;
            assert!(got[..whole] == want[..whole], "{steps} steps per submit");
        }
    }
}

/// What a load will take is known before it: every pool to the byte, and no context that does not fit
/// gets as far as the device.
fn planned_bytes_are_what_is_allocated() {
    for name in ["llama_q4_k", "qwen2_q4_k", "gemma3_q8_0"] {
        let path = common::case("cases/models").join(format!("{name}.gguf"));
        for context in [64, 700, 4096] {
            let o = EngineOptions {
                context: Some(context),
                device: common::device(),
                limits: common::limits(),
                ..Default::default()
            };
            let e = Engine::load(&path, &o, &mut |_| ()).unwrap_or_else(|e| panic!("{e}"));
            let info = e.info();
            assert_eq!(info.memory, info.allocated, "{name} {context}");
            assert!(info.memory.pools().iter().all(|(_, bytes)| *bytes > 0));
            let total = info.memory.total();
            drop(e);
            // A byte less, and it is refused; what fits is named, and is taken where it may be.
            let o = EngineOptions {
                memory: Some(total - 1),
                ..o
            };
            let refused = Engine::load(&path, &o, &mut |s| panic!("{s:?} before it is refused"));
            let Err(Error::NoRoom { largest, bytes, .. }) = refused.map(|_| ()) else {
                panic!("{name} {context} is not refused")
            };
            assert_eq!(bytes, total);
            assert_eq!(largest.is_some(), context > 256, "{name} {context}");
            let auto = EngineOptions { largest: true, ..o };
            match Engine::load(&path, &auto, &mut |_| ()).map(|e| e.info().clone()) {
                Ok(info) => {
                    assert_eq!(Some(info.context), largest, "{name} {context}");
                    assert_eq!(info.wanted_context, Some(context));
                    assert!(info.allocated == info.memory && info.memory.total() < total);
                }
                Err(e) => assert!(largest.is_none(), "{name} {context}: {e}"),
            }
        }
    }
}

/// Wherever an allocation fails, the error says of which pool it was, and the device goes on.
fn a_full_device_is_an_error_that_names_the_pool() {
    let path = common::case("cases/models").join("llama_q4_k.gguf");
    let model = Model::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
    let gpu = Gpu::open_limited(common::device().as_deref(), None, common::limits()).unwrap();
    let wish = Wish {
        context: Some(512),
        slots: 1,
        chunk: None,
    };
    let program = || plan::fit(&model, &gpu.caps, wish).unwrap();
    let memory = Memory::of(&program());
    let all = memory.total() - memory.readback;
    let fails = |left: u64, want: Pool| {
        gpu.pools.leave(left);
        let loaded = GpuProgram::load_warm(gpu.clone(), program(), &mut |_| ());
        let error = loaded.map(|_| ()).unwrap_err();
        let Error::OutOfMemory { pool, name, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(*pool, want.name(), "{left}");
        let text = error.to_string();
        assert!(text.contains(pool) && text.contains(name), "{text}");
    };
    // Up to the first buffer of each pool, and up to the last byte of all.
    let buffers = program().buffers;
    for pool in [Pool::Weights, Pool::Scratch, Pool::Kv] {
        let before = buffers.iter().take_while(|b| b.pool != pool);
        fails(before.map(|b| b.bytes).sum(), pool);
    }
    fails(all - memory.staging - memory.params, Pool::Params);
    fails(all - memory.staging, Pool::Staging);
    fails(all - 1, Pool::Staging);
    gpu.pools.leave(all);
    GpuProgram::load_warm(gpu.clone(), program(), &mut |_| ()).unwrap();
    assert!(matches!(
        Staging::new(&gpu, "a copy", 64).map(|_| ()),
        Err(Error::OutOfMemory {
            pool: "readback",
            ..
        })
    ));

    // In the middle of a session: it goes on as if nothing had been.
    let o = EngineOptions {
        context: Some(128),
        ..Default::default()
    };
    let e = load(o, &mut |_| ()).unwrap();
    let mut s = e.session().unwrap();
    let pools = |left| e.scheduler().program().gpu.pools.leave(left);
    let mut logits = || {
        s.rewind(0);
        let mut all = vec![];
        s.logits(&[1, 2, 3], &mut |_, l| all.extend_from_slice(l))
            .map(|()| all)
    };
    let steps = e.scheduler().program().program.logits.steps().count() as u64;
    for (left, pool) in [(0, "params"), (steps * PARAMS_BYTES, "readback")] {
        pools(left);
        let error = logits().unwrap_err().to_string();
        assert!(error.contains(pool), "{error}");
    }
    pools(u64::MAX);
    let first = logits().unwrap();
    assert!(!first.is_empty() && first.iter().all(|l| l.is_finite()));
    pools(0);
    assert_eq!(logits().unwrap(), first, "what was made is kept");
}

fn main() {
    common::run(vec![
        common::gpu_trial(
            "planned_bytes_are_what_is_allocated",
            planned_bytes_are_what_is_allocated,
        ),
        common::gpu_trial(
            "a_full_device_is_an_error_that_names_the_pool",
            a_full_device_is_an_error_that_names_the_pool,
        ),
        common::gpu_trial(
            "every_shader_is_compiled_once_and_progress_reaches_its_end",
            every_shader_is_compiled_once_and_progress_reaches_its_end,
        ),
        common::gpu_trial(
            "a_pipeline_that_fails_ends_the_load_and_is_named",
            a_pipeline_that_fails_ends_the_load_and_is_named,
        ),
        common::gpu_trial(
            "nothing_depends_on_how_much_of_the_cache_is_bound",
            nothing_depends_on_how_much_of_the_cache_is_bound,
        ),
    ]);
}
