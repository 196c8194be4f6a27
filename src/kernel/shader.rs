//! Which WGSL a pipeline is made of: a main file, the files that fill its slots, and overrides.
//! [`Shader::compose`] joins them into one text with a map from each line back to its file.

use std::fmt;

use super::again::Again;

/// The identity of a pipeline: file, slot fillings, overrides. Equal shaders share one pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shader {
    /// Kernel name; the main file is `shaders/<kernel>.wgsl`.
    pub kernel: &'static str,
    /// (slot, file): `("quant", "quant/q4_1.wgsl")`. Every `#use` that is not a plain file needs one.
    pub slots: Vec<(&'static str, &'static str)>,
    /// Values for the shader's `override` declarations.
    pub overrides: Vec<(&'static str, u32)>,
}

impl fmt::Display for Shader {
    /// `matvec[q4_1, weights_texture, ..., WG=32]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.kernel)?;
        let mut sep = "";
        for (_, file) in &self.slots {
            let stem = file
                .rsplit('/')
                .next()
                .unwrap_or(file)
                .trim_end_matches(".wgsl");
            write!(f, "{sep}{stem}")?;
            sep = ", ";
        }
        for (name, v) in &self.overrides {
            write!(f, "{sep}{name}={v}")?;
            sep = ", ";
        }
        write!(f, "]")
    }
}

/// A composed module: its text, and for each line the file and line a person edits.
pub struct Source {
    /// Complete WGSL.
    pub text: String,
    /// (file, 1-based line) of every line of `text`.
    pub lines: Vec<(&'static str, usize)>,
}

impl Source {
    fn push(&mut self, line: &str, file: &'static str, index: usize) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push((file, index + 1));
    }

    /// File and line behind 1-based line `n` of the text.
    pub fn origin(&self, n: usize) -> (&'static str, usize) {
        n.checked_sub(1)
            .and_then(|i| self.lines.get(i))
            .copied()
            .unwrap_or(("?", 0))
    }
}

impl Shader {
    /// Joins main file and slots. `#use name` takes the slot's file, or else `<name>.wgsl` or
    /// `slots/<name>.wgsl`; each file is taken once. `#again S name ...` takes files once more, with S behind
    /// the names of what is theirs (see [`super::again`]). A missing file is a broken promise of ours.
    pub fn compose(&self) -> Source {
        let mut out = Source {
            text: String::new(),
            lines: Vec::new(),
        };
        let mut done = Vec::new();
        self.include(&format!("{}.wgsl", self.kernel), &mut out, &mut done);
        out
    }

    /// The file that a name behind `#use` or `#again` stands for.
    fn file(&self, slot: &str) -> String {
        match self.slots.iter().find(|(s, _)| *s == slot) {
            Some((_, file)) => file.to_string(),
            None if lookup(&format!("{slot}.wgsl")).is_some() => format!("{slot}.wgsl"),
            None => format!("slots/{slot}.wgsl"),
        }
    }

    fn text(&self, name: &str) -> (&'static str, &'static str) {
        lookup(name).unwrap_or_else(|| panic!("no shader file {name} for {self}"))
    }

    fn include(&self, name: &str, out: &mut Source, done: &mut Vec<&'static str>) {
        let (file, text) = self.text(name);
        if done.contains(&file) {
            return;
        }
        done.push(file);
        for (i, line) in text.lines().enumerate() {
            if let Some(slot) = line.strip_prefix("#use ") {
                self.include(&self.file(slot.trim()), out, done);
            } else if let Some(list) = line.strip_prefix("#again ") {
                let mut words = list.split_whitespace();
                let suffix = words.next().unwrap_or_default();
                let files: Vec<_> = words.map(|w| self.text(&self.file(w))).collect();
                let again = Again::new(suffix, files.iter().map(|f| f.1), &out.text);
                // What a file uses is not its own: it is there already, once.
                let own = |(file, text): &(&'static str, &'static str)| {
                    let lines = text.lines().enumerate();
                    let lines = lines.filter(|(_, l)| !l.starts_with("#use "));
                    let again = lines.map(|(i, l)| (again.line(l), *file, i));
                    again.collect::<Vec<_>>()
                };
                for (line, file, i) in files.iter().flat_map(own).collect::<Vec<_>>() {
                    out.push(&line, file, i);
                }
            } else {
                out.push(line, file, i);
            }
        }
    }
}

fn lookup(name: &str) -> Option<(&'static str, &'static str)> {
    FILES.iter().find(|(n, _)| *n == name).copied()
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Every WGSL file, embedded: (path under `shaders/`, text).
        pub static FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../shaders/", $name)))),*];
    };
}

files![
    "types.wgsl",
    "get_rows.wgsl",
    "matvec.wgsl",
    "matvec_rows.wgsl",
    "matvec2.wgsl",
    "matvec_rows2.wgsl",
    "matmul.wgsl",
    "rms_norm.wgsl",
    "post_norm.wgsl",
    "glu.wgsl",
    "take_row.wgsl",
    "rope_kv.wgsl",
    "attention.wgsl",
    "attention_rows.wgsl",
    "attn_combine.wgsl",
    "logits_part.wgsl",
    "penalize.wgsl",
    "sample.wgsl",
    "peak_fma.wgsl",
    "spoil.wgsl",
    "slots/weights_storage.wgsl",
    "slots/weights_texture.wgsl",
    "slots/x_storage.wgsl",
    "slots/x_uniform.wgsl",
    "slots/x_spread.wgsl",
    "slots/columns_1.wgsl",
    "slots/columns_n.wgsl",
    "slots/four_rows.wgsl",
    "slots/attention_io.wgsl",
    "slots/attention_out.wgsl",
    "slots/at_storage.wgsl",
    "slots/at_texture.wgsl",
    "slots/kv_storage.wgsl",
    "slots/kv_texture.wgsl",
    "slots/cache_storage.wgsl",
    "slots/cache_texture.wgsl",
    "slots/put_rows.wgsl",
    "slots/root.wgsl",
    "slots/product_team.wgsl",
    "slots/product_lanes.wgsl",
    "slots/embed_plain.wgsl",
    "slots/embed_norm.wgsl",
    "slots/scale_one.wgsl",
    "slots/scale_norm.wgsl",
    "slots/sink_plain.wgsl",
    "slots/sink_norm.wgsl",
    "slots/matvec_io.wgsl",
    "slots/emit.wgsl",
    "slots/activation.wgsl",
    "slots/slot.wgsl",
    "slots/draw.wgsl",
    "slots/select.wgsl",
    "slots/team_subgroup.wgsl",
    "slots/team_shared.wgsl",
    "slots/group_subgroup.wgsl",
    "slots/group_shared.wgsl",
    "quant/f32.wgsl",
    "quant/f16.wgsl",
    "quant/bf16.wgsl",
    "quant/q4_0.wgsl",
    "quant/q4_1.wgsl",
    "quant/q5_0.wgsl",
    "quant/q5_1.wgsl",
    "quant/q8_0.wgsl",
    "quant/q2_k.wgsl",
    "quant/q3_k.wgsl",
    "quant/q4_k.wgsl",
    "quant/q5_k.wgsl",
    "quant/q6_k.wgsl",
];
