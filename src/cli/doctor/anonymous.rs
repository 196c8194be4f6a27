//! Text for a bug report: no absolute paths, no name of the model's file, no name of the user.

use std::path::Path;

/// Shorter names would be found in words that have nothing to do with them.
const SHORTEST: usize = 3;

/// What must not be told.
pub struct Anonymous {
    /// Path and name of the model's file, the longest first.
    model: Vec<String>,
    /// Names of the user.
    names: Vec<String>,
}

impl Anonymous {
    /// Hides a MODEL argument, the path it stands for, and the user's name.
    pub fn new(model: Option<&str>, path: Option<&Path>) -> Anonymous {
        let user = ["USER", "LOGNAME", "USERNAME", "SUDO_USER"];
        let user = user.iter().filter_map(|name| std::env::var(name).ok());
        let home = etcetera::home_dir().ok();
        let home = home.iter().filter_map(|h| h.file_name());
        let names = user.chain(home.map(|h| h.to_string_lossy().into_owned()));
        Anonymous::hiding(model, path, names)
    }

    fn hiding(
        model: Option<&str>,
        path: Option<&Path>,
        names: impl Iterator<Item = String>,
    ) -> Anonymous {
        let known = model.is_some_and(|m| tokstep::models::by_name(m).is_some());
        let given = model.map(Path::new).into_iter().chain(path);
        let mut texts = vec![];
        for path in given.filter(|_| !known) {
            texts.push(path.to_string_lossy().into_owned());
            texts.extend(path.file_name().map(|n| n.to_string_lossy().into_owned()));
        }
        let long = |t: &String| t.len() >= SHORTEST;
        texts.retain(long);
        // The whole path before the name in it.
        texts.sort_by_key(|t| std::cmp::Reverse(t.len()));
        Anonymous {
            model: texts,
            names: names.filter(long).collect(),
        }
    }

    /// The text without what must not be told; of a path the last name stays.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.model {
            text = replace_word(&text, secret, "<model>");
        }
        // Folders before names: a name may be one of theirs.
        text = without_folders(&text);
        for name in &self.names {
            text = replace_word(&text, name, "<user>");
        }
        text
    }
}

/// Replaces what is no part of a longer word.
fn replace_word(text: &str, word: &str, instead: &str) -> String {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let alone = !inside(before.chars().next_back()) && !inside(after.chars().next());
        out += before;
        out += if alone { instead } else { word };
        rest = after;
    }
    out + rest
}

/// Absolute paths cut down to their last name.
fn without_folders(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || "\"'`()[]<>,;|".contains(c);
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(ends).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_end);
        out += &short(word);
        let gap = after.chars().next().map_or(0, char::len_utf8);
        out += &after[..gap];
        rest = &after[gap..];
    }
    out
}

/// A word, or what of a list of paths may be told.
fn short(word: &str) -> String {
    let drive = |w: &str| {
        let b = w.as_bytes();
        b.len() > 2 && b[0].is_ascii_alphabetic() && b[1] == b':' && matches!(b[2], b'\\' | b'/')
    };
    if drive(word) || word.starts_with("\\\\") {
        let name = word.rsplit(['\\', '/']).next().unwrap_or_default();
        return format!("<path>/{name}");
    }
    // `NAME=/a/b:/c/d` and `/a/b:` are words with paths in them.
    let parts = word.split_inclusive([':', '=']).map(|part| {
        let (path, end) = match part.strip_suffix([':', '=']) {
            Some(path) => (path, &part[path.len()..]),
            None => (part, ""),
        };
        match path.starts_with('/') && path.len() > 1 || path.starts_with("~/") {
            false => part.to_owned(),
            true => {
                let name = path.trim_end_matches('/').rsplit('/').next();
                format!("<path>/{}{end}", name.unwrap_or_default())
            }
        }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_models_and_users_are_hidden() {
        let names = ["ada".to_owned(), "x".to_owned()];
        let a = Anonymous::hiding(
            Some("secret/my model.gguf"),
            Some(Path::new("/data/ada/my model.gguf")),
            names.into_iter(),
        );
        for (text, want) in [
            ("/data/ada/my model.gguf: bad", "<model>: bad"),
            ("secret/my model.gguf", "<model>"),
            ("open my model.gguf now", "open <model> now"),
            (
                "VK_ICD_FILENAMES=/home/ada/a.json:/etc/b.json is set",
                "VK_ICD_FILENAMES=<path>/a.json:<path>/b.json is set",
            ),
            ("(/usr/lib/libx.so): 3 MB/s", "(<path>/libx.so): 3 MB/s"),
            (
                "adapter of ada, user ada_2",
                "adapter of <user>, user ada_2",
            ),
            (r"C:\Users\ada\x.gguf is", "<path>/x.gguf is"),
            ("and/or 1/2 /", "and/or 1/2 /"),
        ] {
            assert_eq!(a.text(text), want);
        }
        let known = Anonymous::hiding(Some("smollm2"), None, std::iter::empty());
        assert_eq!(known.text("pull smollm2"), "pull smollm2");
    }
}
