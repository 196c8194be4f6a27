//! The ends of the plans: from the last hidden state to logits, from logits to tokens.

use super::build::{Builder, bind};
use super::forward::{ONE, columns};
use super::product::{Act, Product};
use super::sizes::RING_LEN;
use super::{BufId, Dim, Io, Step};
use crate::kernel::Shader;
use crate::kernel::params::{LogitsPart, Penalize, Sample, TakeRow};

/// Workgroups that look at the logits of a column first.
const N_PARTS: u32 = 64;

impl Builder<'_> {
    /// Output norm and logits of `cols` columns of `h`.
    fn finish(&mut self, steps: &mut Vec<Step>, h: Act, io: Io, cols: u32) {
        let hn = self.act("hn", self.model.hyper.n_embd);
        self.norm(
            steps,
            "output_norm",
            &self.model.weights.output_norm,
            (h, hn),
            columns(cols),
        );
        self.logits(steps, None, io, cols);
    }

    /// Logits of the output norm in `hn`.
    fn logits(&mut self, steps: &mut Vec<Step>, root: Option<u32>, io: Io, cols: u32) {
        let model = self.model;
        let hn = self.act("hn", model.hyper.n_embd);
        let logits = Act {
            buf: io.logits,
            stride: self.sizes.logits_stride,
        };
        let product = Product {
            root,
            softcap: model.hyper.softcap,
            ..Product::new(&model.weights.output, hn, logits)
        };
        self.product(steps, product, cols);
    }

    /// The same from where `cols` columns of the layers' plan leave it.
    fn after_body(&mut self, steps: &mut Vec<Step>, root: Option<u32>, io: Io, cols: u32) {
        if self.leaves_norm(cols) {
            self.logits(steps, root, io, cols);
        } else {
            let h = self.act("h", self.model.hyper.n_embd);
            self.finish(steps, h, io, cols);
        }
    }

    /// Penalties, then a token per logits row; `rows` maps rows to slots.
    fn sample(&mut self, steps: &mut Vec<Step>, io: Io, rows: BufId, cols: Dim) {
        let s = self.sizes;
        let n_vocab = self.model.hyper.n_vocab;
        let stride = s.logits_stride;
        let span = n_vocab.div_ceil(N_PARTS);
        let n_parts = n_vocab.div_ceil(span);
        let part = self.scratch("logits_part", u64::from(N_PARTS * s.slots) * 16);
        let hist_stride = s.context;
        let lanes = if self.caps.software { 64 } else { 256 };
        steps.push(Step::new(
            "penalize".into(),
            self.group_shader("penalize", 64),
            Penalize {
                n_vocab,
                stride,
                hist_stride,
            },
            vec![
                bind("slots", io.slots),
                bind("cols", io.cols),
                bind("history", io.history),
                bind("rows", rows),
                bind("logits", io.logits),
            ],
            [cols, ONE, ONE],
        ));
        steps.push(Step::new(
            "logits_part".into(),
            self.group_shader("logits_part", 64),
            LogitsPart {
                n_vocab,
                stride,
                n_parts,
                span,
            },
            vec![bind("logits", io.logits), bind("part", part)],
            [Dim::Fixed(n_parts), cols, ONE],
        ));
        steps.push(Step::new(
            "sample".into(),
            self.group_shader("sample", lanes),
            Sample {
                n_vocab,
                stride,
                n_parts,
                hist_stride,
                ring_len: RING_LEN,
            },
            vec![
                bind("logits", io.logits),
                bind("part", part),
                bind("rows", rows),
                bind("slots", io.slots),
                bind("cols", io.cols),
                bind("history", io.history),
                bind("ring", io.ring),
            ],
            [cols, ONE, ONE],
        ));
    }

    pub(super) fn decode_tail(&mut self, io: Io, root: Option<u32>) -> Vec<Step> {
        let mut steps = Vec::new();
        let slots = self.sizes.slots;
        self.after_body(&mut steps, root, io, slots);
        let rows = self.scratch("rows", 0);
        self.sample(&mut steps, io, rows, columns(slots));
        steps
    }

    pub(super) fn prefill_tail(&mut self, io: Io) -> Vec<Step> {
        let mut steps = Vec::new();
        let n = self.model.hyper.n_embd;
        let (h, last) = (self.act("h", n), self.act("last", n));
        let lanes = self.caps.lanes(64);
        let shader = Shader {
            kernel: "take_row",
            slots: vec![],
            overrides: vec![("WG", lanes)],
        };
        let binds = vec![
            bind("x", h.buf),
            bind("cols", io.prompt_cols),
            bind("out", last.buf),
        ];
        let grid = [Dim::Fixed(n.div_ceil(lanes)), ONE, ONE];
        steps.push(Step::new(
            "last".into(),
            shader,
            TakeRow {
                n,
                stride: h.stride,
            },
            binds,
            grid,
        ));
        self.finish(&mut steps, last, io, 1);
        self.sample(&mut steps, io, io.prompt_rows, ONE);
        steps
    }

    pub(super) fn logits_tail(&mut self, io: Io, root: Option<u32>) -> Vec<Step> {
        let mut steps = Vec::new();
        self.after_body(&mut steps, root, io, self.sizes.logits_cols);
        steps
    }
}
