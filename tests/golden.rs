//! Real models against another engine's f32 reference (llama.cpp, see the files' `engine` and
//! `reference`): greedy continuation, the best token at every step, log-probabilities.

mod common;

use std::path::Path;

use common::gpu_model_trial;
use serde::Deserialize;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions, Stop};

#[derive(Deserialize)]
struct Golden {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    id: String,
    prompt_ids: Vec<u32>,
    greedy: Greedy,
    first: First,
}

#[derive(Deserialize)]
struct Greedy {
    ids: Vec<u32>,
    stop: String,
    near_ties: Vec<usize>,
    top5: Vec<Vec<(u32, f64)>>,
}

#[derive(Deserialize)]
struct First {
    logsumexp: f64,
    ids: Vec<u32>,
    logits: Vec<f64>,
}

/// Stated tolerance for log-probabilities: f32 activations, exact weights, f16 KV cache.
const NATS: f64 = 0.05;

fn log_softmax(l: &[f32]) -> impl Fn(u32) -> f64 {
    let max = f64::from(l.iter().copied().fold(f32::MIN, f32::max));
    let sum: f64 = l.iter().map(|v| (f64::from(*v) - max).exp()).sum();
    let l = l.to_vec();
    move |id| f64::from(l[id as usize]) - max - sum.ln()
}

fn check(model: &Path, golden: &str) {
    let golden: Golden = serde_json::from_str(golden).unwrap();
    let options = EngineOptions {
        context: Some(1024),
        device: common::device(),
        limits: common::limits(),
        ..Default::default()
    };
    let engine = Engine::load(model, &options, &mut |_| ()).unwrap();
    let mut worst = 0f64;
    for p in &golden.prompts {
        // Free running, up to the first near tie.
        let mut s = engine.session().unwrap();
        s.prefill(&p.prompt_ids).unwrap();
        let n = p
            .greedy
            .near_ties
            .first()
            .copied()
            .unwrap_or(p.greedy.ids.len());
        let o = GenerateOptions {
            max_tokens: Some(p.greedy.ids.len() as u32),
            sample: SampleOptions {
                temp: 0.0,
                ..Default::default()
            },
            ..Default::default()
        };
        let mut g = s.generate(&o).unwrap();
        let mut got = Vec::new();
        for piece in &mut g {
            got.extend(piece.unwrap().ids);
        }
        if p.greedy.near_ties.is_empty() && p.greedy.stop == "eog" {
            // The reference does not list the end token itself.
            assert!(
                matches!(g.stop(), Some(Stop::Length | Stop::Eos)),
                "{}",
                p.id
            );
        }
        drop(g);
        assert_eq!(
            got[..n.min(got.len())],
            p.greedy.ids[..n],
            "greedy text of {}",
            p.id
        );

        // Fed with the reference's tokens, every step's best and the probabilities of its five best.
        s.rewind(p.prompt_ids.len() - 1);
        let mut fed = vec![p.prompt_ids[p.prompt_ids.len() - 1]];
        fed.extend(&p.greedy.ids);
        fed.truncate(p.greedy.top5.len());
        s.logits(&fed, &mut |i, l| {
            let best = (0..l.len() as u32)
                .max_by(|a, b| l[*a as usize].total_cmp(&l[*b as usize]))
                .unwrap();
            let lp = log_softmax(l);
            if !p.greedy.near_ties.contains(&i) {
                assert_eq!(
                    best, p.greedy.top5[i][0].0,
                    "best token of {} at step {i}",
                    p.id
                );
            }
            for (id, want) in &p.greedy.top5[i] {
                worst = worst.max((lp(*id) - want).abs());
            }
            if i == 0 {
                for (id, logit) in p.first.ids.iter().zip(&p.first.logits) {
                    let d = (lp(*id) - (logit - p.first.logsumexp)).abs();
                    assert!(d < NATS, "{}: token {id} is {d} nats off", p.id);
                }
            }
        })
        .unwrap();
        println!("{}: ok, worst so far {worst:.4} nats", p.id);
    }
    assert!(worst < NATS, "{worst} nats off");
}

fn main() {
    common::run(vec![
        gpu_model_trial("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", |path| {
            check(path, include_str!("golden/logits_smollm2.json"));
        }),
        gpu_model_trial("gemma3", "gemma-3-270m.Q4_K_M.gguf", |path| {
            check(path, include_str!("golden/logits_gemma-3-270m.json"));
        }),
    ]);
}
