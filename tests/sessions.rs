//! Several sessions of one engine.

mod common;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, Piece, SampleOptions, Stop};

/// Answers of one engine that are asked for by turns are what each is alone.
fn sessions_by_turns() {
    let o = EngineOptions {
        slots: 3,
        context: Some(40),
        device: common::device(),
        limits: common::limits(),
        ..EngineOptions::default()
    };
    let engine = Engine::load(
        &common::case("cases/scripted/scripted_stream.gguf"),
        &o,
        &mut |_| (),
    )
    .unwrap();
    let mut sessions: Vec<_> = (0..3).map(|_| engine.session().unwrap()).collect();
    let limits = [None, Some(20), None];
    for (s, prompt) in sessions.iter_mut().zip([&[65][..], &[68], &[120, 120, 68]]) {
        s.prefill(prompt).unwrap();
    }
    let mut answers: Vec<_> = sessions
        .iter_mut()
        .zip(limits)
        .map(|(s, max_tokens)| {
            let o = GenerateOptions {
                max_tokens,
                sample: SampleOptions {
                    temp: 0.0,
                    ..SampleOptions::default()
                },
                ..GenerateOptions::default()
            };
            s.generate(&o).unwrap()
        })
        .collect();
    let mut texts = vec![String::new(); 3];
    let mut more = true;
    while more {
        more = false;
        for (answer, text) in answers.iter_mut().zip(&mut texts) {
            if let Some(piece) = answer.next() {
                *text += &piece.unwrap().text;
                more = true;
            }
        }
    }
    let lop = "lop".repeat(20);
    assert_eq!(texts, ["Hi there😀!", &lop[..20], &lop[..37]]);
    let stops: Vec<_> = answers.iter().map(|a| a.stop().unwrap()).collect();
    assert_eq!(stops, [Stop::Eos, Stop::Length, Stop::Context]);
}

/// More sequences than a tile of columns has: each gets the tokens it gets alone.
fn more_than_a_tile_of_sequences() {
    let answers = |slots: u32, prompts: &[[u32; 2]]| -> Vec<Vec<u32>> {
        let o = EngineOptions {
            slots,
            context: Some(40),
            device: common::device(),
            limits: common::limits(),
            ..EngineOptions::default()
        };
        let path = common::case("cases/models/llama_q8_0.gguf");
        let engine = Engine::load(&path, &o, &mut |_| ()).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(12),
            sample: SampleOptions {
                temp: 0.0,
                ..SampleOptions::default()
            },
            ignore_eos: true,
            ..GenerateOptions::default()
        };
        let mut all = vec![];
        for prompts in prompts.chunks(slots as usize) {
            let mut sessions: Vec<_> = prompts.iter().map(|_| engine.session().unwrap()).collect();
            let mut answers = vec![];
            for (s, prompt) in sessions.iter_mut().zip(prompts) {
                s.prefill(prompt).unwrap();
                answers.push(s.generate(&o).unwrap());
            }
            let ids = |p: tokstep::Result<Piece>| p.unwrap().ids;
            all.extend(
                answers
                    .into_iter()
                    .map(|a| a.flat_map(ids).collect::<Vec<_>>()),
            );
        }
        all
    };
    let prompts: Vec<_> = (0..11).map(|i| [3 + 2 * i, 40 - i]).collect();
    let alone = answers(1, &prompts);
    assert!(alone.iter().any(|a| *a != alone[0]), "all the same");
    for slots in [9, 11] {
        assert_eq!(answers(slots, &prompts), alone, "{slots} slots");
    }
}

fn main() {
    common::run(vec![
        common::gpu_trial("by_turns", sessions_by_turns),
        common::gpu_trial("more_than_a_tile", more_than_a_tile_of_sequences),
    ]);
}
