//! Tests of the synthetic models against real files' sizes and types, and of what they are made of.

use super::*;
use crate::model::Model;
use std::collections::BTreeMap;

/// Tensors of each type.
fn counts(g: &Gguf) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for t in g.tensors() {
        *counts.entry(t.ty.name).or_insert(0) += 1;
    }
    counts
}

#[test]
fn type_counts_are_those_of_real_files() {
    // As loaders print them for files made by llama.cpp's own quantizer.
    let known: &[(&str, &[(&str, usize)])] = &[
        (
            "gemma-3-270m:q4_k_m",
            &[
                ("F32", 109),
                ("Q4_K", 27),
                ("Q5_0", 81),
                ("Q6_K", 9),
                ("Q8_0", 10),
            ],
        ),
        (
            "smollm2-135m:q4_1",
            &[("F32", 61), ("Q4_1", 210), ("Q8_0", 1)],
        ),
        (
            "llama-3.2-3b:q4_k_m",
            &[("F32", 58), ("Q4_K", 168), ("Q6_K", 29)],
        ),
        (
            "llama-3.1-8b:q4_k_m",
            &[("F32", 66), ("Q4_K", 193), ("Q6_K", 33)],
        ),
    ];
    for (name, wanted) in known {
        assert_eq!(
            counts(&open(name).unwrap()),
            wanted.iter().copied().collect(),
            "{name}"
        );
    }
}

#[test]
fn sizes_are_those_of_real_files() {
    // Bytes of files as published or as in the model cache.
    let known = [
        ("smollm2-135m:q4_1", 98_362_432u64),
        ("gemma-3-270m:q4_k_m", 253_113_024),
        ("llama-3.1-8b:q2_k", 3_179_136_416),
        ("llama-3.1-8b:q3_k_m", 4_018_922_912),
        ("llama-3.1-8b:q4_k_s", 4_692_673_952),
        ("llama-3.1-8b:q4_k_m", 4_920_739_232),
        ("llama-3.1-8b:q5_k_m", 5_732_992_416),
        ("llama-3.1-8b:q6_k", 6_596_011_424),
        ("llama-3.1-8b:q8_0", 8_540_775_840),
        ("llama-3.2-1b:q4_k_m", 807_694_464),
        ("llama-3.2-3b:q4_k_m", 2_019_377_696),
        ("mistral-7b:q4_k_m", 4_372_812_000),
        ("qwen2.5-3b:q4_k_m", 1_929_903_264),
        ("qwen2.5-0.5b:q4_k_m", 397_808_192),
        ("qwen2.5-7b:q4_k_m", 4_683_073_536),
        ("qwen3-0.6b:q8_0", 639_446_688),
        ("qwen3-4b:q4_k_m", 2_497_280_256),
        ("qwen3-8b:q4_k_m", 5_027_783_488),
        ("gemma-3-1b:q4_k_m", 806_058_240),
        ("gemma-3-4b:q4_k_m", 2_489_757_856),
    ];
    for (name, wanted) in known {
        let found = open(name).unwrap().file_bytes();
        let off = found.abs_diff(wanted) as f64 / wanted as f64;
        // The vocabularies differ by a few MB.
        assert!(
            off < 0.005,
            "{name}: {found} bytes, a real file has {wanted}"
        );
    }
}

#[test]
fn every_shape_in_every_mix_is_a_model_of_a_few_megabytes() {
    for shape in shapes::ALL {
        for mix in mix::ALL
            .iter()
            .filter(|m| m.name == "q4_k_m" || m.name == "f16")
        {
            let tensors = tensors::all(shape, mix);
            let (pool, _) = Pool::fill(&tensors);
            assert!(
                pool.len() < 12 << 20,
                "{}: {} bytes",
                shape.name,
                pool.len()
            );
        }
        for mix in mix::ALL {
            for p in tensors::all(shape, mix) {
                let (t, runs) = (&p.tensor, crate::quant::by_id(p.tensor.ty.id).is_some());
                assert!(
                    runs && t.shape[0] % t.ty.block == 0,
                    "{}:{} {}",
                    shape.name,
                    mix.name,
                    t.name
                );
            }
        }
        let name = format!("{}:q2_k", shape.name);
        let model = Model::from_gguf(&open(&name).unwrap()).unwrap();
        assert_eq!(model.hyper.arch, shape.arch);
        assert_eq!(model.hyper.n_vocab, shape.n_vocab);
    }
}

#[test]
fn the_same_name_gives_the_same_bytes() {
    let (a, b) = (
        open("qwen3-0.6b").unwrap(),
        open("Qwen3-0.6B:Q4_K_M").unwrap(),
    );
    assert_eq!(a.tensors().len(), b.tensors().len());
    for (x, y) in a.tensors().iter().zip(b.tensors()) {
        assert_eq!((&x.name, a.data(x).unwrap()), (&y.name, b.data(y).unwrap()));
    }
    // Neighbours share rows, and yet they differ.
    let data = |name: &str| a.data(a.find(name).unwrap()).unwrap();
    assert_ne!(data("blk.0.ffn_gate.weight"), data("blk.0.ffn_up.weight"));
    assert_ne!(data("blk.0.ffn_up.weight"), data("blk.1.ffn_up.weight"));
}

#[test]
fn unknown_names_list_the_known_ones() {
    let text = |wish| open(wish).unwrap_err().to_string();
    assert!(text("llama-9").contains("llama-3.1-8b"));
    assert!(text("llama-3.1-8b:q9").contains("q4_k_m"));
}

#[test]
fn a_saved_model_is_the_same_model() {
    let g = open("smollm2-135m:q4_k_m").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("m.gguf");
    let mut written = 0;
    g.save(&path, &mut |n| written += n).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), g.file_bytes());
    assert_eq!(written, g.file_bytes());
    let again = g.save(&path, &mut |_| ()).unwrap_err().to_string();
    assert!(
        again.contains("m.gguf") && again.contains("exists"),
        "{again}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let file = Gguf::open(&path).unwrap();
    let show = |g: &Gguf| format!("{:?}", g.meta());
    assert_eq!(show(&file), show(&g));
    let (a, b) = (
        Model::from_gguf(&g).unwrap(),
        Model::from_gguf(&file).unwrap(),
    );
    let (a, b) = (a.weights.matrices(), b.weights.matrices());
    assert_eq!(a.len(), b.len());
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for (a, b) in a.iter().zip(&b) {
        assert!(a.period(0).is_some() && b.period(0).is_none());
        for r in (0..a.rows).step_by(a.rows / 40 + 1).chain([a.rows - 1]) {
            a.decode_row(r, &mut x).unwrap();
            b.decode_row(r, &mut y).unwrap();
            assert_eq!(x, y, "{} row {r}", a.label);
        }
        // Rows repeat as the matrix says.
        let mut first = 0;
        while first < a.rows {
            let (period, end) = a.period(first).unwrap();
            for r in [first, first + 1, end - 1 - period.min(end - 1)] {
                assert!(
                    r + period >= end || a.row(r).unwrap() == a.row(r + period).unwrap(),
                    "{}",
                    a.label
                );
            }
            first = end;
        }
        assert_eq!(first, a.rows);
    }
}
