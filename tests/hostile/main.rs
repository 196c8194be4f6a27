//! Hostile and broken files all the way: reader, model, tokenizer, template. Each must give a model or an
//! error that names the place, soon, and with memory in proportion to the file.

#[path = "../common/cli.rs"]
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod keys;
#[path = "../common/patch.rs"]
mod patch;

use common::{case, gpu_trial, json, trial};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};
use tokstep::gguf::{Gguf, Value};
use tokstep::model::Model;
use tokstep::model::matrix::RowBytes;
use tokstep::text::{ChatTemplate, Tokenizer};
use tokstep::{Engine, EngineOptions, Error, GenerateOptions, Result};

#[global_allocator]
static MEMORY: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

/// Everything a load reads of a file but for the device's part.
fn load(open: impl FnOnce() -> Result<Gguf>) -> Result<()> {
    let g = open()?;
    let model = Model::from_gguf(&g)?;
    let tokenizer = Tokenizer::from_gguf(&g)?;
    if tokenizer.n_vocab() > model.hyper.n_vocab as usize {
        return Err(Error::VocabTooLarge {
            path: g.path().to_owned(),
            tokens: tokenizer.n_vocab(),
            rows: model.hyper.n_vocab,
        });
    }
    ChatTemplate::from_gguf(&g)?;
    let ids = tokenizer.encode("a <s> b\u{1F600}\n", true, true)?;
    tokenizer.decode(&ids, true);
    for m in model.weights.matrices() {
        let mut read = RowBytes::default();
        let mut out = vec![0; m.row_vec4s() * 4];
        for r in 0..m.rows {
            m.read(r..r + 1, &mut read)?;
            m.repack(r, &read, &mut out, &mut [0.0])?;
        }
    }
    Ok(())
}

/// Loads and holds time and memory against the file's size.
fn bounded(name: &str, size: u64, open: impl FnOnce() -> Result<Gguf>) -> Result<()> {
    let (start, before) = (Instant::now(), MEMORY.current_usage());
    MEMORY.reset_peak_usage();
    let result = load(open);
    let most = MEMORY.peak_usage().saturating_sub(before) as u64;
    // The tokenizers' regular expressions take some MB, whatever the file.
    assert!(
        most < (24 << 20) + 32 * size,
        "{name}: {most} bytes of memory for {size}"
    );
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{name}: {took:?}"); // a second, on an idle machine
    result
}

/// Every file of the manifest.
fn the_manifest() {
    for case_ in json("cases/gguf/cases.json").as_array().unwrap() {
        let name = case_["case"].as_str().unwrap();
        let path = case(&format!("cases/gguf/{}", case_["file"].as_str().unwrap()));
        let size = std::fs::metadata(&path).unwrap().len();
        let result = bounded(name, 2 * size, || Gguf::open(&path));
        match case_["expect"].as_str().unwrap() {
            "accept" => result.unwrap_or_else(|e| panic!("{name}: {e}")),
            "reject" => {
                let error = result.expect_err(name).to_string();
                assert!(error.contains(".gguf"), "{name}: no file in: {error}");
            }
            _ => {}
        }
    }
}

/// Values of known keys that no model has.
fn metadata_that_means_harm() {
    let mut wrong = Vec::new();
    for (file, key, value, refuse) in keys::all() {
        let path = case(&format!("cases/models/{file}.gguf"));
        // `patch` aligns to 32 bytes whatever the key says.
        let bytes = patch::file(
            &path,
            |keys| patch::set(keys, key, value.clone()),
            |_, _| (),
        );
        let name = format!("{file}, {key} = {value:.40}");
        let size = bytes.len() as u64;
        let result = bounded(&name, size, || Gguf::from_bytes("harm.gguf", bytes));
        match result {
            Err(e) => {
                let text = e.to_string();
                // A wrong length or count may be found where a tensor does not fit it.
                let template = key == "tokenizer.chat_template";
                let named = text.contains(key.rsplit('.').next().unwrap())
                    || text.contains("head_count")
                    || text.contains("keys of rope.scaling")
                    || text.contains("tensor ")
                    || text.contains("part ")
                    || text.contains("files")
                    || template && text.contains("template");
                if !named {
                    wrong.push(format!("{name}: {text}"));
                }
            }
            Ok(()) if refuse => wrong.push(format!("{name} was accepted")),
            Ok(()) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (beta, value) in [
        ("yarn_beta_fast", f32::NAN),
        ("yarn_beta_slow", 0.0),
        ("yarn_attn_factor", f32::INFINITY),
        ("attn_factor", -1.0),
    ] {
        let bytes = patch::file(
            &case("cases/models/llama_f32.gguf"),
            |keys| {
                patch::set(keys, "llama.rope.scaling.type", Value::Str("yarn".into()));
                patch::set(
                    keys,
                    &format!("llama.rope.scaling.{beta}"),
                    Value::F32(value),
                );
            },
            |_, _| (),
        );
        let error = load(|| Gguf::from_bytes("yarn.gguf", bytes))
            .unwrap_err()
            .to_string();
        assert!(error.contains(beta), "{error}");
    }
}

/// Every byte of a header changed, and all lengths and counts made large: a model or an error.
fn every_byte_of_a_header() {
    for file in [
        "cases/gguf/good.gguf",
        "cases/tokenizer/tok_spm_prefix.gguf",
    ] {
        let good = std::fs::read(case(file)).unwrap();
        let mut models = 0;
        for at in 0..good.len().min(2200) {
            for v in [0, 1, good[at] ^ 1, good[at] ^ 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = v;
                let Ok(g) = Gguf::from_bytes("damaged.gguf", bytes) else {
                    continue;
                };
                let model = Model::from_gguf(&g).is_ok();
                models += usize::from(model);
                // Building tokenizers takes longest.
                if at % 7 == 0 {
                    let _ = Tokenizer::from_gguf(&g).map(|t| t.encode("ab", true, true));
                    let _ = ChatTemplate::from_gguf(&g);
                }
            }
        }
        assert!(
            models > 100 || file.contains("tokenizer"),
            "{file}: {models}"
        );
    }
}

/// Sparse files of 64 GiB, whose lengths do not lie: metadata has a limit of its own.
fn a_huge_file_is_not_read_into_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.gguf");
    let head = |tensors: u64, keys: u64| {
        [
            &b"GGUF\x03\0\0\0"[..],
            &tensors.to_le_bytes(),
            &keys.to_le_bytes(),
        ]
        .concat()
    };
    let key = |ty: u32, rest: &[&[u8]]| {
        let name = [&1u64.to_le_bytes()[..], b"k", &ty.to_le_bytes()].concat();
        [head(0, 1), name, rest.concat()].concat()
    };
    let (len, tens) = ((60u64 << 30).to_le_bytes(), (1u64 << 30).to_le_bytes());
    for (what, header) in [
        ("k", key(8, &[&len])),
        ("k", key(9, &[&0u32.to_le_bytes(), &len])),
        ("k", key(9, &[&8u32.to_le_bytes(), &tens])),
        ("k", key(9, &[&9u32.to_le_bytes(), &tens])),
        ("key", [head(0, 1), len.to_vec()].concat()),
        ("keys", head(0, 1 << 30)),
        ("tensors", head(1 << 30, 0)),
    ] {
        std::fs::write(&path, &header).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        if file.set_len(64 << 30).is_err() {
            return; // no place for holes here
        }
        let error = bounded(what, 0, || Gguf::open(&path))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(what) && error.contains("huge.gguf"),
            "{error}"
        );
    }
}

fn truncate(path: &Path, size: u64) {
    let file: File = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

/// A file that another program shortens while it is open gives an error that names what is cut off.
fn a_file_that_shrinks_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shrinks.gguf");
    let whole = std::fs::read(case("cases/models/llama_q4_k.gguf")).unwrap();
    for left in [0, 1000, whole.len() as u64 / 2, whole.len() as u64 - 40] {
        std::fs::write(&path, &whole).unwrap();
        let g = Gguf::open(&path).unwrap();
        let model = Model::from_gguf(&g).unwrap();
        truncate(&path, left);
        let mut read = RowBytes::default();
        let all = model.weights.matrices();
        let failed = all.iter().find_map(|m| m.read(0..m.rows, &mut read).err());
        let text = failed.expect("an error").to_string();
        for part in [
            &format!("it had {} bytes", whole.len()),
            &format!("has {left}"),
            "tensor ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(left > 0 || Model::from_gguf(&g).is_err());
        assert!(g.save(&dir.path().join("copy.gguf"), &mut |_| ()).is_err());
        assert!(!dir.path().join("copy.gguf").exists());
    }
}

fn engine(path: &Path, verify: bool) -> Result<Engine> {
    let o = EngineOptions {
        device: common::device(),
        context: Some(64),
        verify,
        ..Default::default()
    };
    Engine::load(path, &o, &mut |_| ())
}

/// The same in the middle of a load, and under `--verify`, whose twins read weights all the time.
fn a_file_that_shrinks_ends_a_load_or_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shrinks.gguf");
    let whole = std::fs::read(case("cases/models/llama_q4_k.gguf")).unwrap();
    std::fs::write(&path, &whole).unwrap();
    let g = Gguf::open(&path).unwrap();
    truncate(&path, whole.len() as u64 / 2);
    let o = EngineOptions {
        device: common::device(),
        ..Default::default()
    };
    let loaded = Engine::load_gguf(&g, &o, &mut |_| ()).map(|_| ());
    assert!(
        matches!(loaded, Err(Error::FileShrank { .. })),
        "{loaded:?}"
    );

    for verify in [false, true] {
        std::fs::write(&path, &whole).unwrap();
        let e = engine(&path, verify).unwrap();
        truncate(&path, 4000);
        let mut s = e.session().unwrap();
        s.prefill(&[3, 4, 5]).unwrap();
        let o = GenerateOptions {
            max_tokens: Some(2),
            ignore_eos: true,
            ..Default::default()
        };
        let answer = s.generate(&o).map(|a| a.filter(|p| p.is_ok()).count());
        match (verify, answer) {
            // A loaded model needs its file no more.
            (false, Ok(2)) => {}
            (true, Err(e @ Error::FileShrank { .. })) => {
                assert!(e.to_string().contains("tensor "), "{e}");
            }
            (_, other) => panic!("{verify}: {other:?}"),
        }
    }
}

/// `info` reads any file within half a gigabyte of addresses, and needs no device.
#[cfg(unix)]
fn info_with_little_memory() {
    for case_ in json("cases/gguf/cases.json").as_array().unwrap() {
        let name = case_["case"].as_str().unwrap();
        let path = case(&format!("cases/gguf/{}", case_["file"].as_str().unwrap()));
        let start = Instant::now();
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "ulimit -v 524288; exec \"$0\" info \"$1\""])
            .arg(env!("CARGO_BIN_EXE_tokstep"))
            .arg(&path)
            .env("VK_ICD_FILENAMES", "/none")
            .env("VK_DRIVER_FILES", "/none");
        let o = command.output().unwrap();
        let (code, err) = (o.status.code(), cli::stderr(&o));
        assert!(matches!(code, Some(0 | 1)), "{name}: {code:?}: {err}");
        assert!(!err.contains("panicked"), "{name}: {err}");
        let out = String::from_utf8_lossy(&o.stdout);
        // What cannot run is said on either stream.
        let refused = code == Some(1) || out.contains("\nunsupported\n");
        if let "reject" = case_["expect"].as_str().unwrap() {
            let vocabulary = name == "tok_more_tokens_than_rows";
            assert!(refused || vocabulary, "{name}: {out}");
        }
        // A hang, that is.
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{name}: {:?}",
            start.elapsed()
        );
    }
}

fn main() {
    // One after the other: memory is counted for the whole process.
    let mut args = libtest_mimic::Arguments::from_args();
    args.test_threads = Some(1);
    let mut trials = vec![
        trial("the_manifest", the_manifest),
        trial("metadata_that_means_harm", metadata_that_means_harm),
        trial("every_byte_of_a_header", every_byte_of_a_header),
        trial(
            "a_huge_file_is_not_read_into_memory",
            a_huge_file_is_not_read_into_memory,
        ),
        trial(
            "a_file_that_shrinks_is_an_error",
            a_file_that_shrinks_is_an_error,
        ),
        gpu_trial(
            "a_file_that_shrinks_ends_a_load_or_an_answer",
            a_file_that_shrinks_ends_a_load_or_an_answer,
        ),
    ];
    #[cfg(unix)]
    trials.push(trial("info_with_little_memory", info_with_little_memory));
    libtest_mimic::run(&args, trials).exit();
}
