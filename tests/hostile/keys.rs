//! Values of known keys that mean harm: wrong types, extremes, what is no number.

use tokstep::gguf::{Array, Value};

fn ints(n: usize) -> Value {
    Value::Array(Array::of_i32(&vec![-1; n]))
}

fn strs(n: usize, text: &[u8]) -> Value {
    Value::Array(Array::of_strs(vec![text; n]))
}

/// A key of a good model set to a value, and whether that must be refused.
pub fn all() -> Vec<(&'static str, &'static str, Value, bool)> {
    let mut all = Vec::new();
    let mut add = |file, key, value, refuse| all.push((file, key, value, refuse));
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    for (key, zero_is_an_error) in [
        ("block_count", true),
        ("embedding_length", true),
        ("feed_forward_length", true),
        ("attention.head_count", true),
        ("attention.head_count_kv", true),
        ("context_length", false),
        ("rope.dimension_count", true),
        ("attention.key_length", true),
        ("attention.value_length", true),
        ("expert_count", false),
    ] {
        let key: &'static str = format!("llama.{key}").leak();
        add("llama_f32", key, Value::U32(0), zero_is_an_error);
        add("llama_f32", key, Value::I32(-1), true);
        add("llama_f32", key, Value::U64(u64::MAX), true);
        add("llama_f32", key, Value::I64(i64::MIN), true);
        add("llama_f32", key, Value::F32(2.0), true);
        add("llama_f32", key, Value::Str(b"2".to_vec()), true);
        add("llama_f32", key, ints(2), true);
        if key != "llama.context_length" {
            add("llama_f32", key, Value::U32(u32::MAX), true);
            add("llama_f32", key, Value::U32(1 << 31), true);
            add("llama_f32", key, Value::U32(4095), true);
        }
    }
    for (file, key) in [
        ("llama_f32", "llama.rope.freq_base"),
        ("llama_f32", "llama.attention.layer_norm_rms_epsilon"),
        ("gemma3_f32", "gemma3.final_logit_softcapping"),
        ("gemma3_f32", "gemma3.rope.freq_base_swa"),
    ] {
        for v in [nan, inf, -inf, -1.0] {
            add(file, key, Value::F32(v), true);
        }
        add(file, key, Value::F64(1e300), true);
        add(file, key, Value::U32(1), true);
    }
    for v in [nan, inf, -1.0, 1e-45] {
        add(
            "llama_f32",
            "llama.rope.scaling.factor",
            Value::F32(v),
            true,
        );
        add("llama_f32", "llama.rope.scale_linear", Value::F32(v), true);
    }
    let yarn = "llama.rope.scaling.type";
    for text in ["longrope", "", "yarn\0"] {
        add("llama_f32", yarn, Value::Str(text.into()), true);
    }
    add("llama_f32", yarn, Value::U32(1), true);
    let gemma = "gemma3.attention.sliding_window_pattern";
    for v in [
        ints(1),
        ints(100_000),
        strs(2, b"x"),
        Value::U32(0),
        Value::Array(Array::of_f32(&[nan])),
    ] {
        add("gemma3_f32", gemma, v, true);
    }
    add(
        "gemma3_f32",
        "gemma3.attention.sliding_window",
        Value::I32(-1),
        true,
    );
    for key in [
        "general.architecture",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
    ] {
        for v in [
            Value::U32(1),
            Value::Str(vec![0xff; 3]),
            Value::Str(vec![b'x'; 1 << 16]),
            strs(1, b"llama"),
        ] {
            add("llama_f32", key, v, true);
        }
    }
    for v in [
        Value::U32(1),
        ints(5),
        Value::Str(vec![b'a'; 100]),
        strs(0, b""),
    ] {
        add("llama_f32", "tokenizer.ggml.tokens", v, true);
    }
    add(
        "llama_f32",
        "tokenizer.ggml.tokens",
        strs(100_000, b""),
        true,
    );
    for v in [
        strs(5, b"a"),
        ints(1),
        Value::Bool(true),
        Value::Array(Array::of_f32(&[0.0])),
    ] {
        add("llama_f32", "tokenizer.ggml.token_type", v, true);
    }
    for v in [strs(5, b"a"), ints(1), Value::Bool(true)] {
        add("llama_f32", "tokenizer.ggml.scores", v, true);
    }
    for v in [Value::Str(b"1".to_vec()), Value::F32(1.0), ints(1)] {
        add("llama_f32", "tokenizer.ggml.bos_token_id", v, true);
    }
    for v in [Value::U64(u64::MAX), Value::I64(-7)] {
        add("llama_f32", "tokenizer.ggml.eos_token_id", v, false);
    }
    for v in [Value::U32(1), Value::Str(b"yes".to_vec())] {
        add("llama_f32", "tokenizer.ggml.add_bos_token", v, true);
    }
    for text in [
        "{% for",
        "{{ 1",
        "{% include 'x' %",
        "{{ ((((",
        "{% if x %}",
    ] {
        add(
            "llama_f32",
            "tokenizer.chat_template",
            Value::Str(text.into()),
            true,
        );
    }
    let deep = "(".repeat(200_000);
    add(
        "llama_f32",
        "tokenizer.chat_template",
        Value::Str(format!("{{{{ {deep}").into()),
        true,
    );
    add(
        "llama_f32",
        "tokenizer.chat_template",
        Value::Str(vec![0xff]),
        true,
    );
    add("llama_f32", "tokenizer.chat_template", ints(3), true);
    add("llama_f32", "split.count", Value::U16(u16::MAX), true);
    add("llama_f32", "split.no", Value::U32(7), true);
    add("llama_f32", "split.tensors.count", Value::I32(3), true);
    add("llama_f32", "split.count", Value::Str(b"2".to_vec()), true);
    for v in [Value::Str(b"32".to_vec()), Value::U64(3), Value::I32(-32)] {
        add("llama_f32", "general.alignment", v, true);
    }
    all
}
