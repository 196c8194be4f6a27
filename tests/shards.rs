//! Matrices larger than a binding: cut into shards of rows, also odd ones, they give what they give
//! whole. The limits are made small here, so that the smallest model needs dozens of shards.

mod common;

use std::cell::Cell;
use tokstep::Error;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};
use tokstep::kernel::Caps;

const MODELS: &[&str] = &[
    "cases/scripted/scripted_stream.gguf", // output of its own, F16
    "cases/scripted/scripted_chatml.gguf",
    "cases/models/llama_q4_k.gguf",
    "cases/models/llama_q5_1.gguf",
    "cases/models/llama_q8_0.gguf",
    "cases/models/gemma3_q4_0.gguf", // tied output
    "cases/models/qwen2_q5_0.gguf",  // with biases
    "cases/models/qwen3_f32.gguf",
];

fn whole(c: &mut Caps) {
    c.software = false;
}

thread_local! {
    /// Bytes of a storage binding; a load asks for it in the thread it is called in.
    static LIMIT: Cell<u64> = const { Cell::new(0) };
}

fn storage(c: &mut Caps) {
    c.software = false;
    c.max_storage = LIMIT.get();
    c.max_uniform = 16 << 10; // activations without room for a uniform binding behind them
}

fn storage_without_subgroups(c: &mut Caps) {
    storage(c);
    c.subgroups = false;
}

fn texture(c: &mut Caps) {
    c.software = true;
    c.max_texture = 32;
}

/// A grid that is too small in one dimension goes on in the next.
fn grid(c: &mut Caps) {
    c.max_grid = 3;
}

fn grid_of_storage(c: &mut Caps) {
    whole(c);
    grid(c);
}

type Logits = Vec<Vec<f32>>;

fn load(model: &str, adjust: fn(&mut Caps)) -> Result<Engine, Error> {
    let o = EngineOptions {
        adjust: Some(adjust),
        device: common::device(),
        limits: common::limits(),
        context: Some(64),
        ..EngineOptions::default()
    };
    Engine::load(&common::case(model), &o, &mut |_| ())
}

/// Loads with the smallest of these limits that the activations fit.
fn load_in_little(model: &str, adjust: fn(&mut Caps)) -> Engine {
    for limit in [10_000, 17_000, 37_000, 70_000, 135_000] {
        LIMIT.set(limit);
        match load(model, adjust) {
            Err(Error::BufferTooLarge { .. }) => continue,
            e => return e.unwrap_or_else(|e| panic!("{model}: {e}")),
        }
    }
    panic!("{model} fits no limit");
}

fn outcome(e: &Engine) -> (Vec<u32>, Logits, usize) {
    let n = e.tokenizer().n_vocab() as u32;
    // Ids from everywhere, the last one included: every shard of the embedding is read.
    let ids: Vec<u32> = (0..40).map(|i| n - 1 - i * 97 % n).collect();
    let mut logits = vec![];
    let mut s = e.session().unwrap();
    s.logits(&ids, &mut |_, l| logits.push(l.to_vec())).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(20),
        sample: SampleOptions {
            temp: 0.0,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let tokens = s
        .generate(&o)
        .unwrap()
        .flat_map(|p| p.unwrap().ids)
        .collect();
    let shards = e.scheduler().program().program.decode.dispatches();
    (tokens, logits, shards)
}

fn same_as_whole(adjust: fn(&mut Caps), at_least: usize) {
    let mut sharded = 0;
    for model in MODELS {
        let (tokens, logits, steps) = outcome(&load(model, whole).unwrap());
        let (got, got_logits, got_steps) = outcome(&load_in_little(model, adjust));
        sharded += usize::from(got_steps > steps);
        let mut worst = 0f32;
        for (a, b) in logits.iter().flatten().zip(got_logits.iter().flatten()) {
            worst = worst.max((a - b).abs() / a.abs().max(1.0));
        }
        assert!(worst < 1e-3, "{model}: {worst}");
        assert_eq!(got, tokens, "{model}");
    }
    assert!(sharded >= at_least, "only {sharded} models were cut");
}

fn storage_bindings() {
    // The scripted ones; the activations of the others are as large as their matrices.
    same_as_whole(storage, 2);
}

fn storage_bindings_without_subgroups() {
    same_as_whole(storage_without_subgroups, 2);
}

fn textures() {
    // The smallest two are a tile of rows each.
    same_as_whole(texture, MODELS.len() - 2);
}

fn grids_over_several_dimensions() {
    same_as_whole(grid, 0);
    same_as_whole(grid_of_storage, 0);
}

fn main() {
    common::run(vec![
        common::gpu_trial("storage_bindings", storage_bindings),
        common::gpu_trial(
            "storage_bindings_without_subgroups",
            storage_bindings_without_subgroups,
        ),
        common::gpu_trial("textures", textures),
        common::gpu_trial(
            "grids_over_several_dimensions",
            grids_over_several_dimensions,
        ),
    ]);
}
