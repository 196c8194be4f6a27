//! Parts of error texts that depend on more than a value.

/// What a file that is not GGUF looks like.
pub(super) fn foreign(start: &[u8]) -> String {
    match start {
        [] => "it is empty".into(),
        [b'l' | b'f', b'm', b'g', b'g', ..] | [b't', b'j', b'g', b'g', ..] => {
            "an older ggml format: convert the model again".into()
        }
        [b'<', ..] => "it looks like a web page: a failed download?".into(),
        _ => format!("it starts with \"{}\"", start.escape_ascii()),
    }
}

/// What a tensor type that is not known is.
pub(super) fn tensor_type(id: u32, removed: Option<&str>) -> String {
    match removed {
        Some(name) => format!("type {id} ({name}), which was removed from the format"),
        None => format!("unknown type {id}"),
    }
}

/// How often a device was lost, where it is more than once.
pub(super) fn again(times: u32) -> String {
    match times {
        0 | 1 => String::new(),
        n => format!(", {n} times within a minute"),
    }
}

/// What becomes of variants that were caught.
pub(super) fn quarantined(kept: bool) -> &'static str {
    match kept {
        true => "; they are in quarantine and will not be used there",
        false => {
            ", but that could not be kept, and later loads will use them: make room in Tokstep's cache folder, or \
             name another one with TOKSTEP_CACHE"
        }
    }
}

/// Who else may be at fault where a step differs.
pub(super) fn own_numbers(finite: bool) -> &'static str {
    match finite {
        true => "",
        false => {
            "; numbers as large as these come from the model's weights rather than from the device, so nothing is \
             put into quarantine: `tokstep doctor -m` looks at the file"
        }
    }
}
