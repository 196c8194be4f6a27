//! `tokstep run` and its neighbours on tiny models: damaged files, models whose every token is
//! fixed by construction, limits, interrupts, and what is said when something ends.

#[path = "common/cli.rs"]
mod cli;
mod common;
#[path = "common/patch.rs"]
mod patch;

use cli::{answer, command, fails, object, stderr, tokstep};
use common::{case, gpu_trial, json};
use serde_json::Value;
use std::time::{Duration, Instant};

const STREAM: &str = "cases/scripted/scripted_stream.gguf";
const CHATML: &str = "cases/scripted/scripted_chatml.gguf";

fn file(path: &str) -> String {
    case(path).to_str().unwrap().to_owned()
}

/// `run --raw --temp 0 --json` with more flags.
fn run(model: &str, prompt: &str, more: &[&str]) -> Value {
    let model = file(model);
    let args = [
        "run", "-m", &model, "--raw", "--temp", "0", "--json", "-p", prompt,
    ];
    object(&[&args[..], more].concat())
}

/// Every damaged, hostile and odd file does what the manifest says, at once and with one error.
fn gguf_cases() {
    for case in json("cases/gguf/cases.json").as_array().unwrap() {
        let (name, expect) = (
            case["case"].as_str().unwrap(),
            case["expect"].as_str().unwrap(),
        );
        let model = file(&format!("cases/gguf/{}", case["file"].as_str().unwrap()));
        let prompt = case["prompt"].as_str().unwrap();
        let args = [
            "run", "-m", &model, "--raw", "-p", prompt, "--temp", "0", "-n", "4",
        ];
        let start = Instant::now();
        let o = tokstep(&args, b"");
        let (code, err) = (o.status.code(), stderr(&o));
        // A hang, that is; a machine that has other work may take its time.
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{name}: {:?}",
            start.elapsed()
        );
        assert!(
            code == Some(0) || code == Some(1),
            "{name}: {code:?}: {err}"
        );
        assert!(!err.contains("panicked"), "{name}: {err}");
        let loaded = code == Some(0);
        assert!(
            expect == "either" || loaded == (expect == "accept"),
            "{name}: {expect}: {err}"
        );
        if !loaded {
            assert_eq!(err.matches("error: ").count(), 1, "{name}: {err}");
            assert!(o.stdout.is_empty(), "{name}");
        } else if let Some(text) = case["text_if_loaded"].as_str() {
            assert_eq!(
                String::from_utf8_lossy(&o.stdout),
                format!("{text}\n"),
                "{name}"
            );
        }
    }
}

/// Scripts come out to the byte, with every limit on the number of tokens.
fn scripts() {
    for (model, script) in [
        (STREAM, json("cases/scripted/scripted_stream.json")),
        (CHATML, json("cases/scripted/scripted_chatml.json")),
    ] {
        for (trigger, t) in script["triggers"].as_object().unwrap() {
            let text = t["text"].as_str().unwrap();
            if t["end"] == "loops forever" {
                let o = run(model, trigger, &["-n", "30"]);
                assert_eq!(
                    (&o["text"], &o["stop"]),
                    (&text.repeat(10).into(), &"length".into())
                );
                continue;
            }
            // The end token comes after the script, within the eight steps of a submit; it is no part of
            // the answer.
            let n = t["n_tokens"].as_u64().unwrap() as usize;
            let all = run(model, trigger, &[]);
            assert_eq!(
                (&all["text"], &all["stop"]),
                (&text.into(), &"eos".into()),
                "{trigger:?}"
            );
            assert_eq!(all["tokens"].as_array().unwrap().len(), n, "{trigger:?}");
            for limit in [0, 1, n.saturating_sub(1), n, n + 1] {
                let o = run(model, trigger, &["-n", &limit.to_string()]);
                let stop = if limit > n { "eos" } else { "length" };
                assert_eq!(o["stop"], stop, "{trigger:?}, {limit}");
                assert_eq!(
                    o["tokens"].as_array().unwrap()[..],
                    all["tokens"].as_array().unwrap()[..limit.min(n)],
                    "{trigger:?}, {limit}"
                );
            }
        }
    }
}

fn stop_strings_across_tokens_and_split_characters() {
    for (prompt, stop, text) in [
        ("A", "there", "Hi "),
        ("A", "i th", "H"),
        ("A", "😀", "Hi there"),
        ("B", "\nUser:", "x"),
        ("B", "User: z", "x\nUser: y"),
        ("C", "한", "日"),
        ("D", "pl", "lo"),
    ] {
        let o = run(STREAM, prompt, &["--stop", stop, "-n", "20"]);
        assert_eq!(o["text"], text, "{prompt} until {stop:?}");
        let found = stop != "User: z";
        assert_eq!(
            o["stop"] == "stop",
            found,
            "{prompt} until {stop:?}: {}",
            o["stop"]
        );
    }
    let o = run(STREAM, "A", &["--stop", "re", "--stop", "Hi"]);
    assert_eq!(o["text"], "", "the one that comes first");
}

fn the_end_of_the_context_is_told() {
    for (context, n) in [(1, 0), (2, 1), (9, 8), (10, 9), (67, 66)] {
        let o = run(STREAM, "D", &["-c", &format!("{context}")]);
        assert_eq!(o["stop"], "context", "{context}");
        assert_eq!(o["tokens"].as_array().unwrap().len(), n, "{context}");
    }
    let model = file(STREAM);
    let o = tokstep(
        &[
            "run", "-m", &model, "--raw", "-p", "D", "--temp", "0", "-c", "4",
        ],
        b"",
    );
    assert_eq!((&o.stdout[..], o.status.code()), (&b"lop\n"[..], Some(0)));
    assert!(stderr(&o).contains("context of 4 tokens is full") && stderr(&o).contains("-c"));
    let args = ["run", "-m", &model, "--raw", "-c", "8"];
    let long = [&args[..], &["-p", "AAAAAAAAA"]].concat();
    fails(
        &long,
        b"",
        &["has 9 tokens, more than the context of 8;", "larger -c"],
    );
    fails(
        &[&args[..], &["--prompt-tokens", "1,271"]].concat(),
        b"",
        &["271"],
    );
    let more = tokstep(
        &[
            "run",
            "-m",
            &file(CHATML),
            "-p",
            "a",
            "-c",
            "600",
            "-n",
            "1",
        ],
        b"",
    );
    assert!(
        stderr(&more).contains("trained for 512 tokens"),
        "{}",
        stderr(&more)
    );
}

fn a_seed_gives_the_same_bytes_again() {
    let model = file(STREAM);
    let draw = |seed: &str| {
        object(&[
            "run", "-m", &model, "--raw", "--json", "-p", "P", "-n", "1", "--temp", "1", "--top-k",
            "0", "--top-p", "1", "--min-p", "0", "--seed", seed,
        ])
    };
    let texts: Vec<Value> = (0..12)
        .map(|s| draw(&s.to_string())["text"].clone())
        .collect();
    assert_eq!(texts[5], draw("5")["text"]);
    assert!(texts.iter().any(|t| *t != texts[0]), "{texts:?}");
    // What was drawn without a seed is shown, and gives the answer again.
    let free = object(&["run", "-m", &model, "--raw", "--json", "-p", "P", "-n", "1"]);
    let seed = free["seed"].as_u64().unwrap().to_string();
    let again = [
        "run", "-m", &model, "--raw", "--json", "-p", "P", "-n", "1", "--seed", &seed,
    ];
    assert_eq!(free["tokens"], object(&again)["tokens"]);
}

fn text_prompts_from_everywhere() {
    let model = file(STREAM);
    let o = tokstep(&["run", "-m", &model, "--raw", "--temp", "0"], b"a\0A");
    assert_eq!(String::from_utf8_lossy(&o.stdout), "Hi there😀!\n");
    // A text may begin with a dash, and a character may stand where a flag could.
    let o = run(STREAM, "-A", &[]);
    assert_eq!(
        (&o["text"], &o["prompt_tokens"]),
        (&"Hi there😀!".into(), &2.into())
    );
    let ids = [
        "run",
        "-m",
        &model,
        "--prompt-tokens",
        "65",
        "--json",
        "--temp",
        "0",
    ];
    assert_eq!(object(&ids)["prompt_tokens"], 1);
    fails(
        &["run", "-m", &model, "--device", "nonsense", "-p", "A"],
        b"",
        &["'nonsense'", "there are"],
    );
    // An empty variable is none.
    let mut child = command(&["run", "-m", &model, "--raw", "-p", "F", "--temp", "0"]);
    let o = child.env("TOKSTEP_DEVICE", "").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&o.stdout), "ok\n", "{}", stderr(&o));
}

/// A model that loads and whose second layer's numbers have squares beyond f32.
fn large_weights(dir: &std::path::Path) -> String {
    let bytes = patch::file(
        &case("cases/models/llama_f32.gguf"),
        |_| (),
        |t, data| {
            if t.name == "blk.1.ffn_down.weight" {
                patch::scale(data, 1e30);
            }
        },
    );
    let path = dir.join("large.gguf");
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn verify_says_how_much_it_compared() {
    let o = tokstep(
        &[
            "run",
            "-m",
            &file(STREAM),
            "--verify",
            "--raw",
            "-p",
            "A",
            "--temp",
            "0",
        ],
        b"",
    );
    let err = stderr(&o);
    assert_eq!(String::from_utf8_lossy(&o.stdout), "Hi there😀!\n");
    let steps = err
        .split_once("verified: ")
        .expect(&err)
        .1
        .split(' ')
        .next()
        .unwrap();
    assert!(steps.parse::<u32>().unwrap() > 50, "{err}");
    let nan = file("cases/gguf/w_all_nan.gguf");
    fails(
        &["run", "-m", &nan, "--raw", "-p", "a"],
        b"",
        &["tensor output.weight", "NaN", "in row 0"],
    );
    // Finite weights whose products are not.
    let dir = tempfile::tempdir().unwrap();
    let large = large_weights(dir.path());
    let place = ["NaN", "blk.1.ffn_down"];
    fails(
        &["run", "-m", &large, "--raw", "-p", "a"],
        b"",
        &[&place[..], &["--verify"]].concat(),
    );
    fails(
        &["run", "-m", &large, "--raw", "-p", "a", "--verify"],
        b"",
        &[&place[..], &["same as the CPU"]].concat(),
    );
}

fn figures_that_are_no_numbers_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "abcde".repeat(20)).unwrap();
    let text = text.to_str().unwrap();
    let (good, nan) = (
        file("cases/gguf/good.gguf"),
        file("cases/gguf/w_all_nan.gguf"),
    );
    fails(&["ppl", "-m", &nan, "-f", text, "-c", "8"], b"", &["NaN"]);
    let large = large_weights(dir.path());
    fails(
        &["ppl", "-m", &large, "-f", text, "-c", "8"],
        b"",
        &["NaN", "blk.1.ffn_down"],
    );
    fails(
        &["ppl", "-m", &good, "-f", text, "-c", "512"],
        b"",
        &["1024 tokens", "smaller -c"],
    );
    assert!(
        answer(&["ppl", "-m", &good, "-f", text, "-c", "8"]).contains("Final estimate: PPL = ")
    );
    fails(
        &["bench", "-m", &nan, "-p", "8", "-n", "4", "-r", "1"],
        b"",
        &["NaN"],
    );
    fails(
        &["bench", "-m", &good, "-p", "0", "-n", "0"],
        b"",
        &["nothing to measure", "-p"],
    );
}

/// Ctrl-C keeps what is there and ends well; a second command on the same model is unharmed.
fn ctrl_c_ends_the_answer() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Command;
    let model = file(STREAM);
    for json in [false, true] {
        let args = ["run", "-m", &model, "--raw", "-p", "D", "--temp", "0"];
        let mut child = command(&args)
            .args(json.then_some("--json"))
            .arg("-v")
            .spawn()
            .unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut text = vec![];
        match json {
            // The first bytes show that the answer has begun.
            false => {
                text.resize(9, 0);
                out.read_exact(&mut text).unwrap();
            }
            // Nothing comes before the end but the word that the model is loaded.
            true => {
                let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
                assert!(log.any(|l| l.unwrap().contains("loaded in")));
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        out.read_to_end(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let text = String::from_utf8(text).unwrap();
        match json {
            false => assert!(text.starts_with("loploplop") && text.ends_with('\n')),
            true => {
                let o: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(o["stop"], "cancelled");
                assert!(o["text"].as_str().unwrap().starts_with("loploplop"));
            }
        }
    }
}

fn chat_without_a_terminal_answers_once() {
    let o = tokstep(&["chat", "-m", &file(CHATML)], "hé\n".as_bytes());
    assert_eq!(
        String::from_utf8_lossy(&o.stdout),
        "> hé\nHello, I am a script.\n"
    );
    let long = "x".repeat(600);
    let o = tokstep(&["chat", "-m", &file(CHATML)], long.as_bytes());
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("this turn alone"), "{}", stderr(&o));
}

/// What memory a model takes is told before and after, and `-c auto` takes what there is room for.
fn memory_is_told() {
    let model = file("cases/models/llama_q4_k.gguf");
    let table = answer(&["info", "-m", &model, "--fit"]);
    let own = table.lines().find(|l| l.trim_start().starts_with("256 "));
    let own = own.unwrap_or_else(|| panic!("{table}"));
    assert!(own.ends_with(" yes") || own.ends_with(" ?"), "{own}");
    for word in ["Q4_K", "all, f16", "left: "] {
        assert!(table.contains(word), "{table}");
    }
    let args = [
        "run",
        "-v",
        "-m",
        &model,
        "--raw",
        "-p",
        "a",
        "-n",
        "1",
        "--no-tune",
        "-c",
    ];
    let o = tokstep(&[&args[..], &["auto"]].concat(), b"");
    let err = stderr(&o);
    assert_eq!(o.status.code(), Some(0), "{err}");
    assert!(err.contains("context 256, "), "{err}");
    let profile = common::limits();
    assert!(err.contains(&format!("limits {profile};")), "{err}");
    for pool in ["weights", "kv", "scratch", "params", "staging", "readback"] {
        let line = err
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let line = line.into_iter().find(|w| w.get(1) == Some(&pool));
        let line = line.unwrap_or_else(|| panic!("no {pool} in {err}"));
        assert!(line[2] == line[3] && line[2] != "0", "{line:?}");
    }
    // A binding has no room for the keys of so many positions.
    let o = tokstep(&[&args[..], &["2000000000"]].concat(), b"");
    let err = stderr(&o);
    assert_eq!(o.status.code(), Some(1), "{err}");
    assert!(err.contains("max_storage_buffer_binding_size"), "{err}");
    let words = ["run", "-m", &model, "-p", "a", "--limits", "high"];
    let o = tokstep(&words, b"");
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
    assert!(stderr(&o).contains("adapter, browser, low"));
}

fn main() {
    common::run(vec![
        gpu_trial("memory_is_told", memory_is_told),
        gpu_trial("gguf_cases", gguf_cases),
        gpu_trial("scripts", scripts),
        gpu_trial(
            "stop_strings_across_tokens_and_split_characters",
            stop_strings_across_tokens_and_split_characters,
        ),
        gpu_trial(
            "the_end_of_the_context_is_told",
            the_end_of_the_context_is_told,
        ),
        gpu_trial(
            "a_seed_gives_the_same_bytes_again",
            a_seed_gives_the_same_bytes_again,
        ),
        gpu_trial("text_prompts_from_everywhere", text_prompts_from_everywhere),
        gpu_trial(
            "verify_says_how_much_it_compared",
            verify_says_how_much_it_compared,
        ),
        gpu_trial(
            "figures_that_are_no_numbers_are_errors",
            figures_that_are_no_numbers_are_errors,
        ),
        gpu_trial("ctrl_c_ends_the_answer", ctrl_c_ends_the_answer),
        gpu_trial(
            "chat_without_a_terminal_answers_once",
            chat_without_a_terminal_answers_once,
        ),
    ]);
}
