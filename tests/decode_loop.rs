//! The decode loop's promises: nothing allocated after load, one submit and one readback for eight
//! steps, the same tokens however steps are grouped and whoever runs beside, no growth.

mod common;
#[path = "common/patch.rs"]
mod patch;

use std::path::PathBuf;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions, Stop};
use tokstep::gguf::Gguf;

fn model(name: &str) -> PathBuf {
    common::case("cases/models").join(name)
}

fn load(name: &str, o: EngineOptions) -> Engine {
    let o = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        ..o
    };
    Engine::load(&model(name), &o, &mut |_| ()).unwrap()
}

fn greedy() -> SampleOptions {
    SampleOptions {
        temp: 0.0,
        ..Default::default()
    }
}

fn answer(e: &Engine, prompt: &[u32], n: u32, sample: SampleOptions) -> Vec<u32> {
    let mut s = e.session().unwrap();
    s.prefill(prompt).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(n),
        sample,
        ignore_eos: true,
        ..Default::default()
    };
    s.generate(&o)
        .unwrap()
        .flat_map(|p| p.unwrap().ids)
        .collect()
}

fn prompt(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i * 7 + seed * 13 + i * i) % 50).collect()
}

fn nothing_is_made_after_load_and_eight_steps_are_one_submit() {
    let e = load(
        "llama_q4_k.gguf",
        EngineOptions {
            context: Some(512),
            ..Default::default()
        },
    );
    let mut s = e.session().unwrap();
    s.prefill(&prompt(20, 1)).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(1 + 8 * 10),
        sample: greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    let loaded = e.counts();
    let mut g = s.generate(&o).unwrap();
    g.next().unwrap().unwrap();
    let before = e.counts();
    assert_eq!(g.by_ref().count(), 80);
    assert_eq!(g.stop(), Some(Stop::Length));
    let after = e.counts();
    let d: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    let [
        allocations,
        bind_groups,
        pipelines,
        submits,
        dispatches,
        readbacks,
    ] = d[..]
    else {
        unreachable!()
    };
    assert_eq!((allocations, bind_groups, pipelines), (0, 0, 0));
    assert_eq!((submits, readbacks), (10, 10), "one of each per 8 steps");
    // Recorded ahead or not, never more than what is submitted plus one batch.
    let step = u64::from(e.info().dispatches_per_token);
    assert!(dispatches >= 80 * step - 8 * step && dispatches <= 88 * step);
    assert_eq!(loaded[..3], after[..3], "nor is anything made by a prompt");
}

fn sequences_side_by_side_get_the_tokens_of_each_alone() {
    let n = 100;
    for name in ["llama_q4_k.gguf", "gemma3_q8_0.gguf"] {
        let options = |slots| EngineOptions {
            context: Some(256),
            slots,
            ..Default::default()
        };
        let lengths = [5, 70, 33];
        let samplings = [
            greedy(),
            SampleOptions {
                seed: 7,
                repeat_penalty: 1.2,
                ..Default::default()
            },
            SampleOptions {
                seed: 1 << 40,
                temp: 1.5,
                top_k: 0,
                ..Default::default()
            },
        ];
        let alone: Vec<Vec<u32>> = {
            let e = load(name, options(1));
            (0..3)
                .map(|i| answer(&e, &prompt(lengths[i], i as u32), n, samplings[i]))
                .collect()
        };
        let e = load(name, options(3));
        let mut s = e.scheduler();
        let mut together = vec![Vec::new(); 3];
        // They join one after the other, while the first already decode.
        for i in 0..3 {
            let slot = s.acquire().unwrap();
            assert_eq!(slot as usize, i);
            let ids = prompt(lengths[i], i as u32);
            let (head, last) = ids.split_at(ids.len() - 3);
            s.feed(slot, 0, head, &|_| false).unwrap();
            together[i].push(
                s.start(slot, head.len() as u32, last, &ids, &samplings[i], 0)
                    .unwrap(),
            );
            for (all, new) in together.iter_mut().zip(s.decode(5 + i as u32, 8).unwrap()) {
                all.extend(new);
            }
        }
        while together.iter().any(|t| t.len() < n as usize) {
            for (all, new) in together.iter_mut().zip(s.decode(8, 8).unwrap()) {
                all.extend(new);
            }
        }
        for (i, t) in together.iter().enumerate() {
            assert_eq!(t[..n as usize], alone[i], "{name}, sequence {i}");
        }
        assert!(s.acquire().is_err(), "a fourth sequence has no slot");
    }
}

fn the_same_seed_gives_the_same_tokens_and_another_one_others() {
    let e = load(
        "qwen3_q8_0.gguf",
        EngineOptions {
            context: Some(256),
            ..Default::default()
        },
    );
    let with = |seed| {
        answer(
            &e,
            &prompt(10, 5),
            60,
            SampleOptions {
                seed,
                temp: 1.2,
                ..Default::default()
            },
        )
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

fn a_rewound_session_answers_as_a_fresh_one() {
    let e = load(
        "gemma3_f32.gguf",
        EngineOptions {
            context: Some(128),
            ..Default::default()
        },
    );
    let (a, b) = (prompt(25, 1), prompt(12, 9));
    let fresh = answer(&e, &[&a[..10], &b[..]].concat(), 20, greedy());
    let mut s = e.session().unwrap();
    s.prefill(&a).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(20),
        sample: greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    assert_eq!(s.generate(&o).unwrap().count(), 20);
    assert_eq!(s.tokens().len(), 45);
    s.rewind(10);
    s.prefill(&b).unwrap();
    let again: Vec<u32> = s
        .generate(&o)
        .unwrap()
        .flat_map(|p| p.unwrap().ids)
        .collect();
    assert_eq!(again, fresh);
}

fn the_end_of_the_context_ends_an_answer() {
    let e = load(
        "llama_f16.gguf",
        EngineOptions {
            context: Some(50),
            ..Default::default()
        },
    );
    let mut s = e.session().unwrap();
    s.prefill(&prompt(30, 2)).unwrap();
    let o = GenerateOptions {
        sample: greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    let mut g = s.generate(&o).unwrap();
    let n: usize = g.by_ref().map(|p| p.unwrap().ids.len()).sum();
    assert_eq!((n, g.stop()), (20, Some(Stop::Context)));
    drop(g);
    let mut g = s.generate(&o).unwrap();
    assert_eq!(g.next().map(|p| p.unwrap().text.len()), None);
    assert_eq!(g.stop(), Some(Stop::Context));
}

/// One sequence's NaN is its own: the others go on as if alone.
fn a_sequence_that_is_not_finite_ends_alone() {
    // One row of the embedding is so large that its squares are no numbers.
    let file = patch::file(
        &common::case("cases/models/llama_f32.gguf"),
        |_| (),
        |t, data| {
            if t.name == "token_embd.weight" {
                let row = 4 * t.shape[0] as usize;
                data[20 * row..20 * row + 4].copy_from_slice(&3e38f32.to_le_bytes());
            }
        },
    );
    let gguf = Gguf::from_bytes("large.gguf", file).unwrap();
    let options = EngineOptions {
        slots: 2,
        steps_per_submit: 1,
        device: common::device(),
        limits: common::limits(),
        ..Default::default()
    };
    let e = Engine::load_gguf(&gguf, &options, &mut |_| ()).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(4),
        sample: greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    let alone: Vec<u32> = {
        let mut s = e.session().unwrap();
        s.prefill(&[2]).unwrap();
        let answer = s.generate(&o).unwrap();
        answer.flat_map(|p| p.unwrap().ids).collect()
    };
    assert!(!alone.contains(&20) && alone.len() == 4, "{alone:?}");
    let mut a = e.session().unwrap();
    a.prefill(&[2]).unwrap();
    let mut answer = a.generate(&o).unwrap();
    let mut ids = answer.next().unwrap().unwrap().ids;
    let mut bad = 0;
    for id in 0..40 {
        let mut b = e.session().unwrap();
        b.prefill(&[id]).unwrap();
        match b.generate(&o) {
            Err(tokstep::Error::NotFiniteIn { .. }) => bad += 1,
            other => drop(other.unwrap()),
        }
    }
    assert_eq!(bad, 1, "one row of the embedding is too large");
    ids.extend(answer.flat_map(|p| p.unwrap().ids));
    assert_eq!(ids, alone);
}

fn sampling_that_gives_no_numbers_is_refused() {
    let e = load("llama_f32.gguf", EngineOptions::default());
    let mut s = e.session().unwrap();
    s.prefill(&[1]).unwrap();
    for sample in [
        SampleOptions {
            repeat_penalty: 0.0,
            ..greedy()
        },
        SampleOptions {
            temp: f32::NAN,
            ..greedy()
        },
        SampleOptions {
            top_p: f32::NAN,
            ..greedy()
        },
    ] {
        let o = GenerateOptions {
            sample,
            ..Default::default()
        };
        assert!(matches!(
            s.generate(&o).err(),
            Some(tokstep::Error::SampleOption { .. })
        ));
    }
}

fn main() {
    common::run(vec![
        common::gpu_trial(
            "a_sequence_that_is_not_finite_ends_alone",
            a_sequence_that_is_not_finite_ends_alone,
        ),
        common::gpu_trial(
            "sampling_that_gives_no_numbers_is_refused",
            sampling_that_gives_no_numbers_is_refused,
        ),
        common::gpu_trial(
            "nothing_is_made_after_load_and_eight_steps_are_one_submit",
            nothing_is_made_after_load_and_eight_steps_are_one_submit,
        ),
        common::gpu_trial(
            "sequences_side_by_side_get_the_tokens_of_each_alone",
            sequences_side_by_side_get_the_tokens_of_each_alone,
        ),
        common::gpu_trial(
            "the_same_seed_gives_the_same_tokens_and_another_one_others",
            the_same_seed_gives_the_same_tokens_and_another_one_others,
        ),
        common::gpu_trial(
            "a_rewound_session_answers_as_a_fresh_one",
            a_rewound_session_answers_as_a_fresh_one,
        ),
        common::gpu_trial(
            "the_end_of_the_context_ends_an_answer",
            the_end_of_the_context_ends_an_answer,
        ),
    ]);
}
