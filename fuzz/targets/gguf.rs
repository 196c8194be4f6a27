//! The GGUF reader and the model loader: any bytes must give a model or an error, never a panic, and
//! whatever the reader lets through must be readable to the last byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokstep::gguf::{Gguf, Value};
use tokstep::model::Model;
use tokstep::text::{ChatTemplate, Tokenizer};

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes("fuzz", data.to_vec()) else {
        return;
    };
    for (key, value) in gguf.meta() {
        assert!(gguf.get(key).is_some());
        value.to_string();
        if let Value::Array(a) = value {
            let _ = a.strs().map(|s| s.map(<[u8]>::len).sum::<usize>());
            let _ = a.scalars().map(Iterator::count);
        }
    }
    let _ = Tokenizer::from_gguf(&gguf);
    let _ = ChatTemplate::from_gguf(&gguf);
    let _ = Model::from_gguf(&gguf);
});
