//! Devices that get lost: answers go on with the same tokens, the other sequences too, and a device that is
//! lost again and again is an error.

mod common;

use std::path::Path;

use common::gpu_trial;
use tokstep::{Engine, EngineOptions, Error, GenerateOptions, SampleOptions, Session};

const MODEL: &str = "cases/models/llama_q8_0.gguf";

fn load(slots: u32) -> Engine {
    load_file(&common::case(MODEL), slots)
}

fn load_file(path: &Path, slots: u32) -> Engine {
    let options = EngineOptions {
        device: common::device(),
        limits: common::limits(),
        context: Some(256),
        slots,
        ..EngineOptions::default()
    };
    Engine::load(path, &options, &mut |_| ()).unwrap()
}

fn options(temp: f32) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(64),
        sample: SampleOptions {
            temp,
            seed: 7,
            repeat_penalty: 1.1,
            ..SampleOptions::default()
        },
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

/// Two sequences with prompts of 30 and 9 tokens.
fn two(e: &Engine) -> (Session<'_>, Session<'_>) {
    let (mut a, mut b) = (e.session().unwrap(), e.session().unwrap());
    a.prefill(&prompt(30)).unwrap();
    b.prefill(&prompt(9)).unwrap();
    (a, b)
}

fn prompt(n: u32) -> Vec<u32> {
    (0..n).map(|i| 3 + i * 7 % 40).collect()
}

/// The ids of an answer; before those in `at` the device is lost.
fn answer(e: &Engine, s: &mut Session, temp: f32, at: &[usize]) -> Result<Vec<u32>, Error> {
    let mut ids = Vec::new();
    for piece in s.generate(&options(temp))? {
        let before = ids.len();
        ids.extend(piece?.ids);
        if at.iter().any(|n| (before + 1..=ids.len()).contains(n)) {
            e.destroy_device();
        }
    }
    Ok(ids)
}

fn a_loss_in_an_answer_changes_no_token() {
    for temp in [0.0, 0.8] {
        let e = load(1);
        let run = |at: &[usize]| {
            let mut s = e.session().unwrap();
            s.prefill(&prompt(70)).unwrap();
            answer(&e, &mut s, temp, at).unwrap()
        };
        let right = run(&[]);
        assert_eq!(right.len(), 64);
        assert_eq!(run(&[20]), right, "temperature {temp}");
        // What is there now is as good as what was.
        assert_eq!(run(&[]), right);
        // And again, before anything is fed.
        e.destroy_device();
        assert_eq!(run(&[]), right);
    }
}

fn sequences_side_by_side_go_on() {
    let run = |lose: bool| {
        let e = load(2);
        let (mut a, mut b) = two(&e);
        let o = options(0.0);
        let (mut x, mut y) = (a.generate(&o).unwrap(), b.generate(&o).unwrap());
        let mut ids = [Vec::new(), Vec::new()];
        for i in 0..64 {
            if lose && i == 20 {
                e.destroy_device();
            }
            ids[0].extend(x.next().unwrap().unwrap().ids);
            ids[1].extend(y.next().unwrap().unwrap().ids);
        }
        ids
    };
    assert_eq!(run(true), run(false));
}

/// The answer that asked for the steps ends with the error, and may be taken up again.
fn a_refused_command_is_one_answers_error() {
    let e = load(2);
    let run = |refuse: bool| {
        let (mut a, mut b) = two(&e);
        let o = options(0.0);
        let (mut x, mut y) = (a.generate(&o).unwrap(), b.generate(&o).unwrap());
        let mut ids = [Vec::new(), Vec::new()];
        for _ in 0..17 {
            ids[0].extend(x.next().unwrap().unwrap().ids);
            ids[1].extend(y.next().unwrap().unwrap().ids);
        }
        if refuse {
            e.refuse_command();
            // What came before is handed out first.
            let error = loop {
                match x.next().unwrap() {
                    Ok(piece) => ids[0].extend(piece.ids),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, Error::DeviceRejects { .. }), "{error}");
            assert!(x.next().is_none());
            drop(x);
            let o = GenerateOptions {
                max_tokens: Some(64 - ids[0].len() as u32),
                ..o
            };
            let rest = a.generate(&o).unwrap();
            ids[0].extend(rest.flat_map(|piece| piece.unwrap().ids));
        } else {
            ids[0].extend(x.flat_map(|piece| piece.unwrap().ids));
        }
        ids[1].extend(y.flat_map(|piece| piece.unwrap().ids));
        ids
    };
    let right = run(false);
    assert_eq!(right.each_ref().map(Vec::len), [64, 64]);
    // Penalties look back 64 tokens, those of the prompt included, so what is taken up is the same answer.
    assert_eq!(run(true), right);
}

/// The answer that finds it out ends; what comes after tries again.
fn a_reload_that_fails_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::copy(common::case(MODEL), &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let e = load_file(&path, 2);
    let (mut a, mut b) = two(&e);
    let o = options(0.0);
    let right: Vec<u32> = {
        let answer = b.generate(&o).unwrap();
        answer.flat_map(|piece| piece.unwrap().ids).collect()
    };
    b.rewind(9);
    let (mut x, mut y) = (a.generate(&o).unwrap(), b.generate(&o).unwrap());
    let mut ids = Vec::new();
    for _ in 0..9 {
        x.next().unwrap().unwrap();
        ids.extend(y.next().unwrap().unwrap().ids);
    }
    e.destroy_device();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let error = x.by_ref().find_map(Result::err).expect("an error");
    assert!(matches!(error, Error::FileShrank { .. }), "{error}");
    // Nothing is there, which is said and no panic.
    assert_eq!(e.allocated(), None);
    for error in [
        e.copy_bandwidth().unwrap_err(),
        e.step_times(&[1]).unwrap_err(),
    ] {
        assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    }
    drop(x);
    a.rewind(3);
    std::fs::write(&path, &whole).unwrap();
    ids.extend(y.flat_map(|piece| piece.unwrap().ids));
    assert_eq!(ids, right);
    let mut x = a.generate(&o).unwrap();
    x.next().unwrap().unwrap();
}

/// What was counted before a loss is not forgotten: whoever takes differences relies on it.
fn counters_go_on() {
    let e = load(1);
    let mut s = e.session().unwrap();
    s.prefill(&prompt(3)).unwrap();
    let (counts, host) = (e.counts(), e.host_times());
    let gone = std::sync::Arc::downgrade(&e.scheduler().program().gpu);
    let mut answer = s.generate(&options(0.0)).unwrap();
    for _ in 0..20 {
        answer.next().unwrap().unwrap();
    }
    e.destroy_device();
    let begin = std::time::Instant::now();
    let before = answer.stats().decode_ms;
    while answer.stats().tokens < 64 {
        answer.next().unwrap().unwrap();
    }
    assert!(gone.upgrade().is_none(), "the old device is still held");
    let after = e.counts();
    assert!(after.iter().zip(counts).all(|(a, b)| *a >= b));
    let (spent, steps) = (e.host_times().since(host), answer.stats().step_ms.len());
    assert!(spent.submit.calls >= 8 && after[4] - counts[4] > 64);
    // The time that it took to get there again is time of the answer.
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    let told = answer.stats().decode_ms - before;
    assert!(told <= ms && told > 0.9 * ms, "{told} of {ms} ms");
    assert_eq!(steps, 63);
}

fn a_conversation_goes_on() {
    let e = load(1);
    let run = |lose: bool| {
        let mut s = e.session().unwrap();
        s.prefill(&prompt(40)).unwrap();
        let mut ids = answer(&e, &mut s, 0.0, &[]).unwrap();
        if lose {
            e.destroy_device();
        }
        s.prefill(&prompt(5)).unwrap();
        ids.extend(answer(&e, &mut s, 0.0, &[]).unwrap());
        ids
    };
    let right = run(false);
    assert_eq!(run(true), right);
}

/// Also not what was there before and is fed again.
fn an_interrupted_prompt_drops_nothing_but_itself() {
    let e = load(1);
    let mut s = e.session().unwrap();
    s.prefill(&prompt(40)).unwrap();
    answer(&e, &mut s, 0.0, &[]).unwrap();
    let held = s.tokens().to_vec();
    for lose in [false, true] {
        if lose {
            e.destroy_device();
        }
        assert!(!s.prefill_while(&prompt(5), &|_| false).unwrap());
        assert_eq!(s.tokens(), held, "lost: {lose}");
    }
}

fn a_third_loss_within_a_minute_is_an_error() {
    let e = load(1);
    let mut s = e.session().unwrap();
    s.prefill(&prompt(3)).unwrap();
    let error = answer(&e, &mut s, 0.0, &[4, 20, 40]).unwrap_err();
    match &error {
        Error::DeviceLost { times, .. } => assert_eq!(*times, 3),
        e => panic!("{e}"),
    }
    let text = error.to_string();
    assert!(text.contains("3 times within a minute"), "{text}");
}

fn main() {
    common::run(vec![
        gpu_trial(
            "a_loss_in_an_answer_changes_no_token",
            a_loss_in_an_answer_changes_no_token,
        ),
        gpu_trial("sequences_side_by_side_go_on", sequences_side_by_side_go_on),
        gpu_trial(
            "a_refused_command_is_one_answers_error",
            a_refused_command_is_one_answers_error,
        ),
        gpu_trial(
            "a_reload_that_fails_is_an_error_and_not_the_end",
            a_reload_that_fails_is_an_error_and_not_the_end,
        ),
        gpu_trial("counters_go_on", counters_go_on),
        gpu_trial("a_conversation_goes_on", a_conversation_goes_on),
        gpu_trial(
            "an_interrupted_prompt_drops_nothing_but_itself",
            an_interrupted_prompt_drops_nothing_but_itself,
        ),
        gpu_trial(
            "a_third_loss_within_a_minute_is_an_error",
            a_third_loss_within_a_minute_is_an_error,
        ),
    ]);
}
