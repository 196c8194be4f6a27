//! `verify` passes where the device is right, and names the step where it is not.

mod common;

use std::path::Path;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};

fn whole_answers_agree_step_by_step() {
    for name in ["llama_q4_k", "gemma3_q8_0", "qwen2_q4_k", "qwen3_f32"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/models/{name}.gguf"));
        let o = EngineOptions {
            context: Some(128),
            verify: true,
            device: common::device(),
            limits: common::limits(),
            ..Default::default()
        };
        let e = Engine::load(&path, &o, &mut |_| ()).unwrap();
        let mut s = e.session().unwrap();
        s.prefill(&(0..90).map(|i| i * 7 % 50).collect::<Vec<u32>>())
            .unwrap();
        let o = GenerateOptions {
            max_tokens: Some(12),
            ignore_eos: true,
            sample: SampleOptions {
                repeat_penalty: 1.1,
                ..Default::default()
            },
            ..Default::default()
        };
        let n: usize = s.generate(&o).unwrap().map(|p| p.unwrap().ids.len()).sum();
        assert_eq!(n, 12);
        assert!(e.verified().unwrap() > 200);
    }
}

fn main() {
    common::run(vec![common::gpu_trial(
        "whole_answers_agree_step_by_step",
        whole_answers_agree_step_by_step,
    )]);
}
