//! Several sessions of one engine.

mod common;

use tokstep::engine::{Engine, EngineOptions, GenerateOptions, SampleOptions, Stop};

/// Answers of one engine that are asked for by turns are what each is alone.
fn sessions_by_turns() {
    let o = EngineOptions {
        slots: 3,
        context: Some(40),
        device: common::device(),
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

fn main() {
    common::run(vec![common::gpu_trial("by_turns", sessions_by_turns)]);
}
