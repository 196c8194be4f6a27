//! Loading: what is made once, what a failure in one of its threads leaves behind, and a KV cache of
//! which no more is bound than is in use.

mod common;

use std::collections::HashSet;
use std::path::PathBuf;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, LoadStage, SampleOptions};
use tokstep::{Error, Result};

fn load(o: EngineOptions, progress: &mut dyn FnMut(LoadStage)) -> Result<Engine> {
    let o = EngineOptions {
        device: common::device(),
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
/// A page that commands do not bind would be read as zeros.
fn tokens_do_not_depend_on_how_much_of_the_cache_is_bound() {
    let options = |steps_per_submit, context| EngineOptions {
        context: Some(context),
        steps_per_submit,
        ..Default::default()
    };
    let prompt: Vec<u32> = (0..230).map(|i| (i * 7 + i * i) % 50).collect();
    let answer = |steps, context, all: bool| -> Vec<u32> {
        let e = load(options(steps, context), &mut |_| ()).unwrap();
        let mut s = e.session().unwrap();
        if all {
            e.scheduler().program().use_pages(context / 64, false);
        }
        s.prefill(&prompt).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(320),
            sample: SampleOptions {
                temp: 0.0,
                ..Default::default()
            },
            ignore_eos: true,
            ..Default::default()
        };
        let pieces = s.generate(&o).unwrap();
        pieces.flat_map(|p| p.unwrap().ids).collect()
    };
    let whole = answer(1, 1024, true);
    assert_eq!(whole.len(), 320);
    assert_eq!(answer(8, 1024, false), whole, "8 steps per submit");
    assert_eq!(answer(3, 640, false), whole, "3 steps per submit");
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
            "tokens_do_not_depend_on_how_much_of_the_cache_is_bound",
            tokens_do_not_depend_on_how_much_of_the_cache_is_bound,
        ),
    ]);
}
