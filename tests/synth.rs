//! Synthetic models on the device: what is uploaded by one period that the device copies on must be
//! what the same model's file gives row by row.

mod common;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};
use tokstep::gguf::Gguf;
use tokstep::kernel::Caps;
use tokstep::synth;

type Adjust = fn(&mut Caps);

fn as_it_is(_: &mut Caps) {}

/// Shards whose borders are no multiples of a period, and rows that end inside a texture line.
fn small_textures(c: &mut Caps) {
    c.software = true;
    c.max_texture = c.max_texture.min(600);
}

fn small_bindings(c: &mut Caps) {
    c.software = false;
    c.max_storage = c.max_storage.min(5_000_000);
}

/// `n` tokens of an answer, and the logits of the last prompt token.
fn outcome(gguf: &Gguf, adjust: Adjust, n: u32) -> (Vec<u32>, Vec<f32>) {
    let o = EngineOptions {
        adjust: Some(adjust),
        device: common::device(),
        limits: common::limits(),
        context: Some(64),
        ..EngineOptions::default()
    };
    let engine = Engine::load_gguf(gguf, &o, &mut |_| ()).unwrap();
    let tokens = engine.tokenizer().n_vocab() as u32;
    // Ids from everywhere: every shard of the embedding is read.
    let ids: Vec<u32> = (0..3).map(|i| tokens - 1 - i * 16381).collect();
    let mut last = vec![];
    let mut session = engine.session().unwrap();
    let mut keep = |_: usize, logits: &[f32]| last = logits.to_vec();
    session.logits(&ids, &mut keep).unwrap();
    if n == 0 {
        return (vec![], last);
    }
    let o = GenerateOptions {
        max_tokens: Some(n),
        sample: SampleOptions {
            temp: 0.0,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let answer = session.generate(&o).unwrap();
    let tokens = answer.flat_map(|p| p.unwrap().ids).collect();
    (tokens, last)
}

fn same_as_its_file() {
    // Rows of 576 weights fall back to types of 32 a block, those of 1536 do not: four types.
    let made = synth::open("smollm2-135m:q4_k_m").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    made.save(&path, &mut |_| ()).unwrap();
    let file = Gguf::open(&path).unwrap();
    let all: [(Adjust, u32); 3] = [(as_it_is, 2), (small_textures, 0), (small_bindings, 0)];
    for (adjust, n) in all {
        let (tokens, logits) = outcome(&made, adjust, n);
        let (file_tokens, file_logits) = outcome(&file, adjust, n);
        assert!(logits.iter().all(|l| l.is_finite()));
        let spread = logits.iter().fold(0f32, |m, l| m.max(l.abs()));
        assert!((1.0..20.0).contains(&spread), "logits up to {spread}");
        assert_eq!(logits, file_logits);
        assert_eq!((tokens.len(), &tokens), (n as usize, &file_tokens));
    }
}

fn main() {
    common::run(vec![common::gpu_trial(
        "same_as_its_file",
        same_as_its_file,
    )]);
}
