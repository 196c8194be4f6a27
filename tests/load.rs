//! Loading: what is made once, what a failure in one of its threads leaves behind, and a KV cache of
//! which no more is bound than is in use.

mod common;

use std::collections::HashSet;
use std::path::PathBuf;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, LoadStage, SampleOptions};
use tokstep::plan::Pool;
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
        LoadStage::Tuning { .. } => panic!("nobody asked for tuning"),
    });
    let e = e.unwrap();
    let scheduler = e.scheduler();
    let p = &scheduler.program().program;
    let all = [&p.decode, &p.prefill, &p.logits].map(|p| p.body.iter().chain(&p.tail));
    let all: Vec<_> = all.into_iter().flatten().collect();
    let distinct: HashSet<_> = all.iter().map(|s| &s.shader).collect();
    assert_eq!(e.counts()[2], distinct.len() as u64, "pipelines");
    assert_eq!(weights.0, weights.1, "bytes");
    assert_eq!(steps, (all.len() as u32, all.len() as u32), "steps");
    let load = e.info().load;
    for ms in [load.open_ms, load.tokenizer_ms, load.device.weights_ms] {
        assert!(ms > 0.0 && ms <= e.info().load_ms, "{load:?}");
    }
    assert!(load.device.compile_ms > 0.0, "{load:?}");
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

fn main() {
    common::run(vec![
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
