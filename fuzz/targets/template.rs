//! Chat templates: any text is compiled and, where that succeeds, rendered with a few messages, which
//! must end with a prompt or an error. What follows a NUL byte is what the user says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokstep::text::{ChatTemplate, Message};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (source, said) = text.split_once('\0').unwrap_or((&text, "Hi"));
    let Ok(template) = ChatTemplate::new(source) else {
        return;
    };
    let messages = [
        Message::new("system", "Be brief."),
        Message::new("user", said),
        Message::new("assistant", "1 < 2"),
        Message::new("user", "And \"then\"?"),
    ];
    let _ = template.render_chat(&messages);
    let tools = serde_json::json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let messages = serde_json::json!([{"role": "user", "content": said}]);
    let extra = serde_json::Map::new();
    let _ = template.render(&messages, Some(&tools), false, &extra);
});
