//! A plan as text, one line a step: number, pipeline, label, bindings, grid. Tests keep such texts,
//! so that a change to the forward pass shows as changed lines.

use std::fmt::Write;

use super::{Batch, Dim, Plan, Program, Step};

impl Program {
    /// The whole plan.
    pub fn show(&self, plan: &Plan) -> String {
        let mut out = String::new();
        for (part, steps) in [("body", &plan.body), ("tail", &plan.tail)] {
            let _ = writeln!(out, "{} {part}, up to {} columns", plan.name, plan.width);
            for (i, s) in steps.iter().enumerate() {
                let _ = writeln!(out, "{i:03} {}", self.show_step(s));
            }
        }
        out
    }

    fn show_step(&self, s: &Step) -> String {
        let binds: Vec<String> = s
            .binds
            .iter()
            .map(|b| match b.offset {
                0 => format!("{}={}", b.name, self.buffers[b.buf].name),
                o => format!("{}={}+{o}", b.name, self.buffers[b.buf].name),
            })
            .collect();
        let grid: Vec<String> = s
            .grid
            .iter()
            .map(|d| match d {
                Dim::Fixed(n) => n.to_string(),
                Dim::Columns { first: 0, .. } => "cols".into(),
                Dim::Columns { first, max } => format!("cols[{first}..{}]", first + max),
                Dim::Tiles(n) => format!("cols/{n}"),
                Dim::Chunks(n) => format!("len/{n}"),
            })
            .collect();
        let live = match (*s.live.start(), *s.live.end()) {
            (1, u32::MAX) => String::new(),
            (a, u32::MAX) => format!(" if cols >= {a}"),
            (a, b) if a == b => format!(" if cols = {a}"),
            (a, b) => format!(" if cols = {a}..{b}"),
        };
        format!(
            "{} {} ({}) {}{live}",
            s.shader,
            s.label,
            binds.join(" "),
            grid.join("x")
        )
    }
}

impl Plan {
    /// All steps, those too that some batches leave out.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.body.iter().chain(&self.tail)
    }

    /// Dispatches of one full step (body and tail).
    pub fn dispatches(&self) -> usize {
        let full = Batch {
            cols: self.width,
            kv_len: self.width,
        };
        self.steps().filter(|s| s.grid(full).is_some()).count()
    }
}
