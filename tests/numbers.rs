//! Numbers that are none: weights are found at load, by tensor and row; activations are followed back to
//! the step that first makes them.

#[path = "common/blocks.rs"]
mod blocks;
mod common;
#[path = "common/patch.rs"]
mod patch;

use common::{case, gpu_trial, trial};
use tokstep::gguf::Gguf;
use tokstep::model::{Matrix, Model, matrix::RowBytes};
use tokstep::{Engine, EngineOptions, Error, GenerateOptions, Result, quant};

const TYPES: [&str; 13] = [
    "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k",
    "q6_k",
];

fn model(name: &str) -> std::path::PathBuf {
    case(&format!("cases/models/{name}.gguf"))
}

/// Puts a NaN or an infinity into block `block` of a tensor.
fn spoil(data: &mut [u8], ty: &str, block: usize, infinite: bool) {
    let t = quant::ALL.iter().find(|t| t.name == ty).unwrap();
    let at = block * t.bytes;
    let bits: u32 = if infinite { 0xff80_0000 } else { 0x7fc0_0000 };
    match ty {
        "F32" => data[at..at + 4].copy_from_slice(&bits.to_le_bytes()),
        "BF16" => data[at..at + 2].copy_from_slice(&bits.to_le_bytes()[2..]),
        _ => {
            let i = at + *blocks::floats(ty).0.last().unwrap();
            let half: u16 = if infinite { 0xfc00 } else { 0x7e01 };
            data[i..i + 2].copy_from_slice(&half.to_le_bytes());
        }
    }
}

/// Reads and repacks all rows, as a load does.
fn repack(m: &Matrix) -> Result<()> {
    let mut read = RowBytes::default();
    let mut out = vec![0; m.row_vec4s() * 4 * 7];
    for first in (0..m.rows).step_by(7) {
        let n = 7.min(m.rows - first);
        m.read(first..first + n, &mut read)?;
        m.repack(first, &read, &mut out, &mut vec![0.0; n])?;
    }
    Ok(())
}

fn weights_of_every_type_are_found_by_tensor_and_row() {
    for ty in TYPES {
        for (tensor, row) in [
            ("token_embd.weight", 3),
            ("blk.0.attn_q.weight", 5),
            ("blk.1.attn_v.weight", 0),
            ("blk.0.ffn_up.weight", 9),
            ("blk.1.ffn_down.weight", 1),
        ] {
            for infinite in [false, true] {
                let file = patch::file(
                    &model(&format!("llama_{ty}")),
                    |_| (),
                    |t, data| {
                        if t.name == tensor {
                            let block = row * (t.shape[0] / t.ty.block) as usize;
                            spoil(data, t.ty.name, block, infinite);
                        }
                    },
                );
                let m = Model::from_gguf(&Gguf::from_bytes("bad.gguf", file).unwrap()).unwrap();
                let found: Vec<Error> = m
                    .weights
                    .matrices()
                    .iter()
                    .filter_map(|m| repack(m).err())
                    .collect();
                match &found[..] {
                    [
                        Error::WeightNotFinite {
                            tensor: t, row: r, ..
                        },
                    ] => {
                        assert_eq!((t.as_str(), *r), (tensor, row), "{ty}");
                    }
                    other => panic!("{ty} {tensor}: {other:?}"),
                }
            }
        }
    }
}

fn vectors_are_checked_when_the_model_is_read() {
    for (file, tensor) in [
        ("llama_f32", "output_norm.weight"),
        ("llama_q4_k", "blk.1.ffn_norm.weight"),
        ("qwen2_f32", "blk.0.attn_k.bias"),
        ("qwen3_f32", "blk.1.attn_q_norm.weight"),
        ("x_llama3_rope", "rope_freqs.weight"),
    ] {
        let bytes = patch::file(
            &model(file),
            |_| (),
            |t, data| {
                if t.name == tensor {
                    spoil(data, "F32", 2, true);
                }
            },
        );
        let g = Gguf::from_bytes("bad.gguf", bytes).unwrap();
        let error = Model::from_gguf(&g).err().expect(tensor).to_string();
        assert!(
            error.contains(tensor) && error.contains("bad.gguf"),
            "{error}"
        );
    }
}

fn engine(bytes: Vec<u8>, context: u32) -> Result<Engine> {
    let o = EngineOptions {
        device: common::device(),
        context: Some(context),
        ..Default::default()
    };
    Engine::load_gguf(&Gguf::from_bytes("bad.gguf", bytes)?, &o, &mut |_| ())
}

fn one_bad_weight_ends_the_load() {
    for name in ["llama_f32", "llama_q6_k", "gemma3_q8_0"] {
        let bytes = patch::file(
            &model(name),
            |_| (),
            |t, data| {
                if t.name == "blk.1.ffn_gate.weight" {
                    spoil(data, t.ty.name, 0, false);
                }
            },
        );
        let error = engine(bytes, 64).err().expect(name).to_string();
        assert!(
            error.contains("blk.1.ffn_gate.weight") && error.contains("row 0"),
            "{error}"
        );
    }
}

/// The error of an answer after a prompt of `n` tokens.
fn failure(e: &Engine, n: u32, max: u32) -> Error {
    let mut s = e.session().unwrap();
    s.prefill(&(0..n).map(|i| 3 + i * 7 % 40).collect::<Vec<u32>>())
        .unwrap();
    let o = GenerateOptions {
        max_tokens: Some(max),
        ignore_eos: true,
        ..Default::default()
    };
    match s.generate(&o) {
        Err(e) => e,
        Ok(mut answer) => answer.find_map(|p| p.err()).expect("an error"),
    }
}

/// Weights that are finite, and too large for what is computed with them.
fn activations_that_overflow_are_followed_to_the_step() {
    for (name, tensor, largest, blamed) in [
        ("llama_f32", "blk.1.ffn_down", 3e38, "blk.1.ffn_down"),
        ("llama_f32", "blk.1.ffn_up", 3e38, "blk.1.ffn_"),
        // Finite, but for the sum of the squares that the next norm needs.
        ("llama_f32", "blk.0.ffn_down", 1e25, "blk.0.ffn_down"),
        ("llama_f32", "output", 3e38, "output"),
        // Too large for the cache only.
        ("llama_f32", "blk.1.attn_v", 1e9, "blk.1.attn_q+k+v"),
        ("gemma3_f32", "blk.0.attn_output", 3e38, "blk.0.attn_output"),
    ] {
        let bytes = patch::file(
            &model(name),
            |_| (),
            |t, data| {
                if t.name == format!("{tensor}.weight") {
                    patch::scale(data, largest);
                }
            },
        );
        let e = engine(bytes, 512).unwrap();
        for n in [1, 200] {
            match failure(&e, n, 4) {
                Error::NotFiniteIn {
                    label,
                    from: source,
                    position,
                    ..
                } => {
                    let found = [&label, &source].iter().any(|l| l.starts_with(blamed));
                    assert!(found, "{name} {tensor}: {label} from {source}");
                    assert_eq!(position, n as usize);
                }
                other => panic!("{name} {tensor}: {other}"),
            }
        }
    }
}

/// A token whose embedding is too large comes in the middle of the prompt, or of the answer; another
/// sequence in the same engine goes on.
fn what_is_found_is_this_sequence_s_alone() {
    let bytes = patch::file(
        &model("llama_f32"),
        |_| (),
        |t, data| {
            if t.name == "token_embd.weight" {
                let row = t.row_bytes() as usize;
                patch::scale(&mut data[45 * row..46 * row], 1e24);
            }
        },
    );
    let o = EngineOptions {
        device: common::device(),
        context: Some(512),
        slots: 2,
        ..Default::default()
    };
    let g = Gguf::from_bytes("bad.gguf", bytes).unwrap();
    let e = Engine::load_gguf(&g, &o, &mut |_| ()).unwrap();
    let o = GenerateOptions {
        max_tokens: Some(40),
        ignore_eos: true,
        ..Default::default()
    };
    let prompt: Vec<u32> = (0..150).map(|i| 3 + i * 7 % 40).collect();
    let alone: Vec<u32> = {
        let mut s = e.session().unwrap();
        s.prefill(&prompt).unwrap();
        s.generate(&o)
            .unwrap()
            .flat_map(|p| p.unwrap().ids)
            .collect()
    };
    let mut good = e.session().unwrap();
    good.prefill(&prompt).unwrap();
    let mut answer = good.generate(&o).unwrap();
    let mut ids = answer.next().unwrap().unwrap().ids;
    let mut bad = e.session().unwrap();
    let mut spoiled = prompt.clone();
    spoiled[10] = 45;
    bad.prefill(&spoiled).unwrap();
    match bad.generate(&o).err().expect("an error") {
        Error::NotFiniteIn { label, .. } => assert_eq!(label, "blk.0.attn_norm"),
        other => panic!("{other}"),
    }
    drop(bad);
    ids.extend(answer.flat_map(|p| p.unwrap().ids));
    assert_eq!(ids, alone);
}

fn main() {
    common::run(vec![
        trial(
            "weights_of_every_type_are_found_by_tensor_and_row",
            weights_of_every_type_are_found_by_tensor_and_row,
        ),
        trial(
            "vectors_are_checked_when_the_model_is_read",
            vectors_are_checked_when_the_model_is_read,
        ),
        gpu_trial("one_bad_weight_ends_the_load", one_bad_weight_ends_the_load),
        gpu_trial(
            "activations_that_overflow_are_followed_to_the_step",
            activations_that_overflow_are_followed_to_the_step,
        ),
        gpu_trial(
            "what_is_found_is_this_sequence_s_alone",
            what_is_found_is_this_sequence_s_alone,
        ),
    ]);
}
