//! Tiny models of every architecture and weight type against recorded logits, prompts in chunks and
//! token by token: on the device's own kernel variants, on those of other devices, and on the CPU
//! twins.

mod common;

use common::{Trial, gpu_trial, trial};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};
use tokstep::gguf::Gguf;
use tokstep::kernel::Caps;
use tokstep::kernel::params::Slot;
use tokstep::model::Model;
use tokstep::plan::sizes::{RING_LEN, Wish};
use tokstep::plan::{self, Batch, Sizes, Which};
use tokstep::reference::Runner;

#[derive(Deserialize)]
struct Case {
    model: String,
    tokens: Vec<u32>,
    logits: std::collections::BTreeMap<usize, Vec<f32>>,
    argmax_every_position: Vec<u32>,
    greedy: Vec<u32>,
    tolerance: Tolerance,
}

#[derive(Deserialize)]
struct Tolerance {
    strict: f32,
}

fn cases() -> Vec<(PathBuf, Case)> {
    let dir = common::case("cases/models");
    let mut all: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .map(|p| serde_json::from_slice::<Case>(&std::fs::read(p).unwrap()).unwrap())
        .map(|c| (dir.join(&c.model), c))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// How far logits are from the recorded ones.
#[derive(Default)]
struct Judge {
    worst: f32,
    wrong: usize,
    seen: usize,
}

impl Judge {
    fn see(&mut self, case: &Case, position: usize, logits: &[f32]) {
        for (a, b) in logits
            .iter()
            .zip(case.logits.get(&position).into_iter().flatten())
        {
            let d = (a - b).abs();
            self.worst = if d.is_nan() {
                f32::INFINITY
            } else {
                self.worst.max(d)
            };
        }
        let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        self.wrong += usize::from(best != Some(case.argmax_every_position[position] as usize));
        self.seen += 1;
    }

    fn end(self, case: &Case, chunk: usize, bad: &mut Vec<String>) {
        let Judge { worst, wrong, seen } = self;
        let (model, limit) = (&case.model, case.tolerance.strict);
        println!("{model} in chunks of {chunk}: {worst:.5} of {limit:.5}, {wrong} of {seen} wrong");
        if worst > limit || wrong > 0 || seen != case.tokens.len() {
            bad.push(format!(
                "{model} in chunks of {chunk}: {worst} over {limit}, {wrong} of {seen} wrong"
            ));
        }
    }
}

fn greedy(case: &Case, got: &[u32], bad: &mut Vec<String>) {
    if got != case.greedy {
        bad.push(format!(
            "{}: greedy {got:?}, not {:?}",
            case.model, case.greedy
        ));
    }
}

fn on_device(adjust: Option<fn(&mut Caps)>) {
    let mut bad = Vec::new();
    for (path, case) in cases() {
        let options = EngineOptions {
            adjust,
            device: common::device(),
            limits: common::limits(),
            context: Some(64),
            ..Default::default()
        };
        let engine = Engine::load(&path, &options, &mut |_| ())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for chunk in [case.tokens.len(), 7, 1] {
            let mut s = engine.session().unwrap();
            let mut judge = Judge::default();
            for (c, ids) in case.tokens.chunks(chunk).enumerate() {
                s.logits(ids, &mut |i, l| judge.see(&case, c * chunk + i, l))
                    .unwrap();
            }
            judge.end(&case, chunk, &mut bad);
        }
        let greedily = |n: usize| GenerateOptions {
            max_tokens: Some(n as u32),
            sample: SampleOptions {
                temp: 0.0,
                ..Default::default()
            },
            ignore_eos: true,
            ..Default::default()
        };
        let mut s = engine.session().unwrap();
        s.prefill(&case.tokens).unwrap();
        let o = greedily(case.greedy.len());
        let got: Vec<u32> = s
            .generate(&o)
            .unwrap()
            .flat_map(|p| p.unwrap().ids)
            .collect();
        greedy(&case, &got, &mut bad);
        // Prompts of few tokens, which have products of their own: the token after them, and what
        // they left in the cache for those behind.
        for n in [1, 2, 4, 5, 8, 9] {
            s.rewind(0);
            s.prefill(&case.tokens[..n]).unwrap();
            let first: Vec<u32> = s
                .generate(&greedily(1))
                .unwrap()
                .flat_map(|p| p.unwrap().ids)
                .collect();
            if first != [case.argmax_every_position[n - 1]] {
                bad.push(format!("{}: {first:?} after {n} tokens", case.model));
            }
            s.rewind(n);
            let behind = n + 4;
            let mut judge = Judge {
                seen: case.tokens.len() - 4,
                ..Judge::default()
            };
            s.logits(&case.tokens[n..behind], &mut |i, l| {
                judge.see(&case, n + i, l)
            })
            .unwrap();
            judge.end(&case, n, &mut bad);
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The whole program on the CPU twins, driven by hand: what the plan says, without any device.
fn cpu_twins() {
    let caps = Caps::usual_gpu();
    let mut bad = Vec::new();
    for (path, case) in cases() {
        let model = Model::from_gguf(&Gguf::open(&path).unwrap()).unwrap();
        let wish = Wish {
            context: Some(64),
            slots: 2,
            chunk: None,
        };
        let sizes = Sizes::fit(&model.hyper, &caps, wish).unwrap();
        let mut r = Runner::new(Arc::new(plan::build(&model, &caps, sizes)));
        let io = r.program().io;
        let n_vocab = model.hyper.n_vocab as usize;
        r.write(io.pages, 0, &[1, 0]); // a page per slot, the second slot's first
        let feed = |r: &mut Runner, first: usize, ids: &[u32], which| {
            let n = ids.len() as u32;
            let mut cols = vec![n, n - 1, 0, 0];
            ids.iter()
                .zip(first as u32..)
                .for_each(|(id, p)| cols.extend([*id, p, 0, 1]));
            r.write(io.prompt_cols, 0, &cols);
            r.run(
                which,
                Batch {
                    cols: n,
                    kv_len: first as u32 + n,
                },
            );
        };
        let chunk = 7;
        let mut judge = Judge::default();
        for (c, ids) in case.tokens.chunks(chunk).enumerate() {
            feed(&mut r, c * chunk, ids, Which::Logits);
            let all: &[f32] = bytemuck::cast_slice(r.words(io.logits));
            for i in 0..ids.len() {
                judge.see(
                    &case,
                    c * chunk + i,
                    &all[i * sizes.logits_stride as usize..][..n_vocab],
                );
            }
        }
        judge.end(&case, chunk, &mut bad);

        // The last token again, now sampling; then one token a step.
        let last = case.tokens.len() - 1;
        let state = Slot {
            repeat_penalty: 1.0,
            top_p: 1.0,
            hist_len: last as u32 + 1,
            ..Default::default()
        };
        r.write(io.slots, 0, bytemuck::cast_slice(&[state]));
        r.write(io.history, 0, &case.tokens);
        r.write(io.cols, 16, &[0, last as u32, 0, 1]);
        r.write(io.prompt_rows, 0, &[0]);
        feed(&mut r, last, &case.tokens[last..], Which::PrefillLast);
        for i in 1..case.greedy.len() {
            r.run(
                Which::Decode,
                Batch {
                    cols: sizes.slots,
                    kv_len: (last + 1 + i) as u32,
                },
            );
        }
        assert!(case.greedy.len() <= RING_LEN as usize);
        greedy(&case, &r.words(io.ring)[..case.greedy.len()], &mut bad);
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

fn main() {
    fn variants(name: &str, adjust: Option<fn(&mut Caps)>) -> Trial {
        gpu_trial(name, move || on_device(adjust))
    }
    common::run(vec![
        trial("cpu_twins", cpu_twins),
        variants("own_variants", None),
        variants("gpu_variants", Some(|c| c.software = false)),
        variants(
            "plain_variants",
            Some(|c| {
                c.software = false;
                c.subgroups = false;
            }),
        ),
    ]);
}
