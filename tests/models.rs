//! Tiny models of every architecture and weight type against recorded logits, prefill in chunks and
//! token by token, on the device's own kernel variants and on those of other devices.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions};

#[derive(Deserialize)]
struct Case {
    model: String,
    tokens: Vec<u32>,
    logits: std::collections::BTreeMap<String, Vec<f32>>,
    argmax_every_position: Vec<u32>,
    greedy: Vec<u32>,
    tolerance: Tolerance,
}

#[derive(Deserialize)]
struct Tolerance {
    strict: f32,
}

fn cases() -> Vec<(PathBuf, Case)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/models");
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

fn run(adjust: Option<fn(&mut tokstep::kernel::Caps)>) {
    let mut bad = Vec::new();
    for (path, case) in cases() {
        let options = EngineOptions {
            adjust,
            context: Some(64),
            ..Default::default()
        };
        let engine = Engine::load(&path, &options, &mut |_| ())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for chunk in [case.tokens.len(), 7, 1] {
            let mut s = engine.session().unwrap();
            let mut worst = 0f32;
            let mut wrong = 0;
            for (c, ids) in case.tokens.chunks(chunk).enumerate() {
                s.logits(ids, &mut |i, l| {
                    let p = c * chunk + i;
                    if let Some(want) = case.logits.get(&p.to_string()) {
                        for (a, b) in l.iter().zip(want) {
                            worst = worst.max((a - b).abs());
                            if a.is_nan() {
                                worst = f32::INFINITY;
                            }
                        }
                    }
                    let best = (0..l.len()).max_by(|a, b| l[*a].total_cmp(&l[*b])).unwrap();
                    wrong += usize::from(best as u32 != case.argmax_every_position[p]);
                })
                .unwrap();
            }
            println!(
                "{} chunk {chunk}: worst {worst:.5} of {:.5}, argmax wrong {wrong}",
                case.model, case.tolerance.strict
            );
            if worst > case.tolerance.strict || wrong > 0 {
                bad.push(format!(
                    "{} in chunks of {chunk}: {worst} over {}, {wrong} wrong",
                    case.model, case.tolerance.strict
                ));
            }
        }
        let mut s = engine.session().unwrap();
        s.prefill(&case.tokens).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(case.greedy.len() as u32),
            sample: SampleOptions {
                temp: 0.0,
                ..Default::default()
            },
            ignore_eos: true,
            ..Default::default()
        };
        let got: Vec<u32> = s
            .generate(&o)
            .unwrap()
            .flat_map(|p| p.unwrap().ids)
            .collect();
        if got != case.greedy {
            bad.push(format!(
                "{}: greedy {got:?}, want {:?}",
                case.model, case.greedy
            ));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn own_variants() {
    run(None);
}
