//! `#again S name ...` in a shader: files that are in the module already, once more under other names,
//! so that a kernel can do with two matrices of different types what it does with one.
//!
//! S is put behind every name that one of these files declares at its outer level (`fn`, `struct`, `const`,
//! `var`) and behind every field of `P` for which `Params` has one of that name with S. Binding numbers are
//! ten larger. A `quant2` among the files is a slot of its own. The files a file uses stay as they are.

/// What gets other names.
pub struct Again<'a> {
    suffix: &'a str,
    names: Vec<&'a str>,
    /// Fields of `Params` that end in the suffix, without it.
    fields: Vec<&'a str>,
}

impl<'a> Again<'a> {
    /// The names that `files` declare, and those fields in `before`, what is composed so far.
    pub fn new(
        suffix: &'a str,
        files: impl Iterator<Item = &'a str>,
        before: &'a str,
    ) -> Again<'a> {
        let params = before.split_once("struct Params {").unwrap_or_default().1;
        let params = params.split('}').next().unwrap_or_default();
        let fields = params.lines().filter_map(|l| l.split_once(':'));
        Again {
            suffix,
            names: files.flat_map(str::lines).filter_map(declared).collect(),
            fields: fields
                .filter_map(|(name, _)| name.trim().strip_suffix(suffix))
                .collect(),
        }
    }

    /// A line of one of the files.
    pub fn line(&self, line: &str) -> String {
        let mut out = String::new();
        let mut rest = line;
        while let Some(start) = rest.find(word) {
            let (before, from) = rest.split_at(start);
            let (name, after) = from.split_at(from.find(|c| !word(c)).unwrap_or(from.len()));
            out.push_str(before);
            rest = after;
            let binding = out.ends_with("@binding(");
            match name.parse::<u32>() {
                Ok(number) if binding => out.push_str(&(number + 10).to_string()),
                _ => {
                    let field = out.ends_with("P.") && !out.trim_end_matches("P.").ends_with(word);
                    let ours = match field {
                        true => self.fields.contains(&name),
                        false => !out.ends_with('.') && self.names.contains(&name),
                    };
                    out.push_str(name);
                    out.push_str(if ours { self.suffix } else { "" });
                }
            }
        }
        out + rest
    }
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name that a line of WGSL declares, if it is at the outer level.
fn declared(line: &str) -> Option<&str> {
    if !line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@') {
        return None;
    }
    let mut words = line.split(|c| !word(c)).filter(|w| !w.is_empty());
    match words.find(|w| ["fn", "struct", "const", "override", "var"].contains(w))? {
        // var<storage, read> w: ...
        "var" => line
            .split_once(':')?
            .0
            .rsplit(|c| !word(c))
            .find(|w| !w.is_empty()),
        _ => words.next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: &str = "struct Params {\n    nb: u32,\n    rows: u32,\n    rows2: u32,\n}\n";
    const FILE: &str = "\
@group(0) @binding(1) var<storage, read> w: array<vec4<u32>>;
const SIZE: u32 = 4u;
struct Group {
    s: vec4<u32>, // SIZE of them
}
fn load(row: u32) -> Group {
    let w0 = w[row * P.nb + P.rows + GP.rows + size];
    return Group(w0 + x.w);
}";

    #[test]
    fn what_files_declare_gets_other_names() {
        let again = Again::new("2", [FILE].into_iter(), PARAMS);
        assert_eq!(again.names, ["w", "SIZE", "Group", "load"]);
        assert_eq!(again.fields, ["rows"]);
        let lines: Vec<_> = FILE.lines().map(|l| again.line(l)).collect();
        let want = "\
@group(0) @binding(11) var<storage, read> w2: array<vec4<u32>>;
const SIZE2: u32 = 4u;
struct Group2 {
    s: vec4<u32>, // SIZE2 of them
}
fn load2(row: u32) -> Group2 {
    let w0 = w2[row * P.nb + P.rows2 + GP.rows + size];
    return Group2(w0 + x.w);
}";
        assert_eq!(lines.join("\n"), want);
    }

    /// The map from lines to files holds for what is there twice.
    #[test]
    fn lines_keep_their_origin() {
        use crate::kernel::{Shader, shader::FILES};
        let shader = Shader {
            kernel: "matvec_rows2",
            slots: vec![
                ("quant", "quant/q4_k.wgsl"),
                ("quant2", "quant/q6_k.wgsl"),
                ("weights", "slots/weights_texture.wgsl"),
                ("x", "slots/x_uniform.wgsl"),
                ("columns", "slots/columns_1.wgsl"),
                ("team", "slots/team_shared.wgsl"),
                ("scale", "slots/scale_one.wgsl"),
            ],
            overrides: vec![],
        };
        let source = shader.compose();
        let same = |l: &str| l.replace(|c: char| c.is_ascii_digit(), "");
        let mut seen = std::collections::HashMap::new();
        for (i, line) in source.text.lines().enumerate() {
            let (file, n) = source.origin(i + 1);
            let (_, text) = FILES.iter().find(|f| f.0 == file).expect("a file");
            let origin = text.lines().nth(n - 1).expect("a line");
            assert_eq!(same(line), same(origin), "{file}:{n}");
            *seen.entry(file).or_insert(0) += usize::from(n == text.lines().count());
        }
        assert_eq!(seen["quant/q4_k.wgsl"], 1);
        assert_eq!(seen["quant/q6_k.wgsl"], 1);
        assert_eq!(seen["slots/weights_texture.wgsl"], 2);
        assert_eq!(seen["slots/four_rows.wgsl"], 1);
    }
}
