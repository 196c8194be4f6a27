//! The forward pass, written once for every architecture and every kind of batch.
//!
//! A batch is a list of columns, each one token at one position of one slot. Decoding has a column
//! per slot, a prompt chunk has consecutive positions of one slot; the steps are the same.

use super::build::{Builder, bind};
use super::product::Act;
use super::sizes::{PAGE_LEN, RING_LEN, TILE, stride};
use super::{Bind, BufId, Dim, Io, Step};
use crate::kernel::Shader;
use crate::kernel::params::{
    Attention, AttnCombine, GetRows, Glu, LogitsPart, Mode, Norm, Penalize, RopeKv, Sample, TakeRow,
};
use crate::model::{self, Layer};

const ONE: Dim = Dim::Fixed(1);
/// Workgroups that look at the logits of a column first.
const N_PARTS: u32 = 64;

impl Builder<'_> {
    /// Embedding and layers for up to `cols` columns described by the buffer `cols_buf`. Leaves the
    /// residual stream in `h`, and for architectures with post-norms the output norm of it in `hn`.
    pub(super) fn body(&mut self, cols_buf: BufId, cols: u32) -> Vec<Step> {
        let model = self.model;
        let h = &model.hyper;
        let mut steps = Vec::new();
        self.embed(&mut steps, cols_buf, cols);
        let acts = (self.act("h", h.n_embd), self.act("hn", h.n_embd));
        self.norm(
            &mut steps,
            "blk.0.attn_norm",
            &model.weights.layers[0].attn_norm,
            acts,
            columns(cols),
        );
        for (i, layer) in model.weights.layers.iter().enumerate() {
            self.layer(&mut steps, i, layer, cols_buf, cols);
        }
        steps
    }

    fn layer(&mut self, steps: &mut Vec<Step>, i: usize, l: &Layer, cols_buf: BufId, cols: u32) {
        let model = self.model;
        let hy = &model.hyper;
        let p = format!("blk.{i}");
        let (h, hn) = (self.act("h", hy.n_embd), self.act("hn", hy.n_embd));
        let qkv = self.act("qkv", hy.q_dim() + 2 * hy.kv_dim());
        for (row, m) in &l.qkv {
            self.product(steps, m, hn, qkv, *row, cols, (Mode::Store, 0.0));
        }
        self.rope_kv(steps, i, l, qkv, cols_buf, cols);
        let attn = self.attention(steps, i, cols_buf, cols);
        let last = model.weights.layers.len() - 1;
        let next = if i < last {
            &model.weights.layers[i + 1].attn_norm
        } else {
            &model.weights.output_norm
        };
        let next_name = if i < last {
            format!("blk.{}.attn_norm", i + 1)
        } else {
            "output_norm".into()
        };

        // Attention branch back into the residual stream, then the FFN's norm.
        if let Some(post) = &l.post_attention_norm {
            let branch = self.act("branch", hy.n_embd);
            self.product(
                steps,
                &l.attn_output,
                attn,
                branch,
                0,
                cols,
                (Mode::Store, 0.0),
            );
            self.post_norm(
                steps,
                format!("{p}.post_attention_norm"),
                post,
                &l.ffn_norm,
                cols,
            );
        } else {
            self.product(steps, &l.attn_output, attn, h, 0, cols, (Mode::Add, 0.0));
            self.norm(
                steps,
                &format!("{p}.ffn_norm"),
                &l.ffn_norm,
                (h, hn),
                columns(cols),
            );
        }

        // FFN branch, then the next layer's norm (the output norm is the tail's, see `finish`).
        let ff = self.ffn(steps, &p, l, hn, cols);
        if let Some(post) = &l.post_ffw_norm {
            let branch = self.act("branch", hy.n_embd);
            self.product(steps, &l.ffn_down, ff, branch, 0, cols, (Mode::Store, 0.0));
            self.post_norm(steps, format!("{p}.post_ffw_norm"), post, next, cols);
        } else {
            self.product(steps, &l.ffn_down, ff, h, 0, cols, (Mode::Add, 0.0));
            if i < last {
                self.norm(steps, &next_name, next, (h, hn), columns(cols));
            }
        }
    }

    fn ffn(&mut self, steps: &mut Vec<Step>, p: &str, l: &Layer, hn: Act, cols: u32) -> Act {
        let hy = &self.model.hyper;
        let mode = match hy.act {
            model::Act::Silu => Mode::Silu,
            model::Act::Gelu => Mode::Gelu,
        };
        let n_ff = hy.n_ff;
        let ff = self.act("ff", n_ff);
        if let [fused] = &l.ffn_gate_up[..] {
            self.product(steps, fused, hn, ff, 0, cols, (mode, 0.0));
            return ff;
        }
        let both = self.act("gate+up", 2 * n_ff);
        for (i, m) in l.ffn_gate_up.iter().enumerate() {
            self.product(
                steps,
                m,
                hn,
                both,
                i as u32 * n_ff,
                cols,
                (Mode::Store, 0.0),
            );
        }
        let params = Glu {
            n: n_ff,
            up: n_ff,
            x_stride: both.stride,
            out_stride: ff.stride,
            mode: mode as u32,
        };
        let binds = vec![bind("x", both.buf), bind("out", ff.buf)];
        let shader = Shader {
            kernel: "glu",
            slots: vec![],
            overrides: vec![("WG", 64)],
        };
        let grid = [Dim::Fixed(n_ff.div_ceil(64)), columns(cols), ONE];
        steps.push(Step::new(
            format!("{p}.ffn_act"),
            shader,
            params,
            binds,
            grid,
        ));
        ff
    }

    fn embed(&mut self, steps: &mut Vec<Step>, cols_buf: BufId, cols: u32) {
        let model = self.model;
        let m = &model.weights.token_embd;
        let h = self.act("h", model.hyper.n_embd);
        let nb = m.k.div_ceil(32) as u32;
        for (buf, first, rows) in self.shards(m).to_vec() {
            let params = GetRows {
                nb,
                row_vec4s: m.row_vec4s() as u32,
                mult: (rows * m.row_vec4s()) as u32,
                rows: rows as u32,
                row0: first as u32,
                tex_shift: self.buffers[buf].texture.unwrap_or(0),
                out_stride: h.stride / 4,
                scale: model.hyper.embd_scale,
            };
            let slots = vec![("quant", m.ty.shader), self.caps.weights()];
            let shader = Shader {
                kernel: "get_rows",
                slots,
                overrides: vec![("WG", 32)],
            };
            let binds = vec![bind("w", buf), bind("cols", cols_buf), bind("out", h.buf)];
            let grid = [Dim::Fixed(nb.div_ceil(32)), columns(cols), ONE];
            steps.push(Step::new("token_embd".into(), shader, params, binds, grid));
        }
    }

    fn group_shader(&self, kernel: &'static str, lanes: u32) -> Shader {
        Shader {
            kernel,
            slots: vec![self.caps.group()],
            overrides: vec![("WG", lanes.min(self.caps.max_lanes))],
        }
    }

    /// Lanes for a sum over a column: many on a GPU, few where lanes run one after another.
    fn norm_lanes(&self) -> u32 {
        if self.caps.software { 32 } else { 256 }
    }

    fn norm(
        &mut self,
        steps: &mut Vec<Step>,
        name: &str,
        weight: &[f32],
        (x, out): (Act, Act),
        cols: Dim,
    ) {
        let hy = &self.model.hyper;
        let params = Norm {
            n: hy.n_embd,
            stride: x.stride,
            eps: hy.eps,
        };
        let w = self.numbers(name, || weight.to_vec());
        let binds = vec![bind("x", x.buf), bind("weight", w), bind("out", out.buf)];
        let shader = self.group_shader("rms_norm", self.norm_lanes());
        steps.push(Step::new(
            name.to_string(),
            shader,
            params,
            binds,
            [cols, ONE, ONE],
        ));
    }

    /// `h += norm(branch)`, `hn = norm(h)`.
    fn post_norm(
        &mut self,
        steps: &mut Vec<Step>,
        name: String,
        post: &[f32],
        next: &[f32],
        cols: u32,
    ) {
        let hy = &self.model.hyper;
        let (n, eps) = (hy.n_embd, hy.eps);
        let (x, h, out) = (self.act("branch", n), self.act("h", n), self.act("hn", n));
        let w = self.numbers(&name, || [post, next].concat());
        let binds = vec![
            bind("x", x.buf),
            bind("weight", w),
            bind("h", h.buf),
            bind("out", out.buf),
        ];
        let shader = self.group_shader("post_norm", self.norm_lanes());
        let params = Norm {
            n,
            stride: x.stride,
            eps,
        };
        steps.push(Step::new(
            name,
            shader,
            params,
            binds,
            [columns(cols), ONE, ONE],
        ));
    }

    fn rope_kv(
        &mut self,
        steps: &mut Vec<Step>,
        i: usize,
        l: &Layer,
        qkv: Act,
        cols_buf: BufId,
        cols: u32,
    ) {
        let (hy, s) = (&self.model.hyper, self.sizes);
        let rope_index = hy.layers[i].rope;
        let rope = &hy.ropes[rope_index];
        let mut aux = l.qkv_bias.clone().unwrap_or_default();
        aux.extend(l.qk_norm.iter().flatten());
        aux.resize(aux.len().max(4), 0.0);
        let params = RopeKv {
            n_head: hy.n_head,
            n_kv: hy.n_head_kv,
            hd: hy.head_dim,
            hdp: s.hdp,
            rot: rope.rot,
            x_stride: qkv.stride,
            q_stride: stride(hy.n_head * s.hdp),
            page_len: PAGE_LEN,
            pages_per_slot: s.pages_per_slot,
            has_bias: l.qkv_bias.is_some().into(),
            has_norm: l.qk_norm.is_some().into(),
            eps: hy.eps,
        };
        let heads = hy.n_head + 2 * hy.n_head_kv;
        let q = self.act("q", hy.n_head * s.hdp);
        let binds = vec![
            bind("x", qkv.buf),
            bind("cols", cols_buf),
            bind("pages", self.scratch("pages", 0)),
            bind(
                "rope",
                self.numbers(&format!("rope.{rope_index}"), || rope.table(s.context)),
            ),
            bind("aux", self.numbers(&format!("blk.{i}.attn_aux"), || aux)),
            bind("q", q.buf),
            bind("kc", self.kv(&format!("k.{i}"))),
            bind("vc", self.kv(&format!("v.{i}"))),
        ];
        let grid = [Dim::Fixed(heads), columns(cols), ONE];
        steps.push(Step::new(
            format!("blk.{i}.rope_kv"),
            self.group_shader("rope_kv", 32),
            params,
            binds,
            grid,
        ));
    }

    /// Attention of a layer; returns where its output is.
    fn attention(&mut self, steps: &mut Vec<Step>, i: usize, cols_buf: BufId, cols: u32) -> Act {
        let (hy, s) = (&self.model.hyper, self.sizes);
        let window = hy.layers[i].window.unwrap_or(0);
        // Many columns are parallel enough; a few are split along the sequence.
        let chunk = if cols > 8 {
            s.context.next_multiple_of(TILE)
        } else {
            s.decode_chunk()
        };
        let n_chunks = s.context.div_ceil(chunk);
        let heads = (hy.n_head / hy.n_head_kv).min(4);
        let (n_head, n_kv, hd, scale) = (hy.n_head, hy.n_head_kv, hy.head_dim, hy.attn_scale);
        let blocks = (n_head / n_kv).div_ceil(heads);
        let part_bytes = |cols: u32, n_chunks: u32| {
            u64::from(cols * n_head * n_chunks) * u64::from(4 + s.hdp) * 4
        };
        let decode_chunks = s.context.div_ceil(s.decode_chunk());
        let narrow = s.slots.max(s.logits_cols).min(8);
        let largest = part_bytes(s.width, 1).max(part_bytes(narrow, decode_chunks));
        let part = self.scratch("attn_part", largest);
        let q = self.act("q", n_head * s.hdp);
        let uniform = self.caps.software && q.stride * 4 <= 65536;
        let tile = if uniform {
            (65536 / (q.stride * 4)).min(cols)
        } else {
            cols
        };
        for col0 in (0..cols).step_by(tile as usize) {
            let params = Attention {
                n_head,
                n_kv,
                hdp: s.hdp,
                q_stride: q.stride / 4,
                heads,
                blocks,
                scale,
                window,
                chunk,
                n_chunks,
                page_len: PAGE_LEN,
                pages_per_slot: s.pages_per_slot,
                col0,
            };
            let binds = vec![
                Bind {
                    name: "x",
                    buf: q.buf,
                    offset: u64::from(col0 * q.stride) * 4,
                },
                bind("kc", self.kv(&format!("k.{i}"))),
                bind("vc", self.kv(&format!("v.{i}"))),
                bind("cols", cols_buf),
                bind("pages", self.scratch("pages", 0)),
                bind("part", part),
            ];
            let mut shader = self.group_shader("attention", 64);
            shader.slots.push((
                "x",
                if uniform {
                    "slots/x_uniform.wgsl"
                } else {
                    "slots/x_storage.wgsl"
                },
            ));
            let along = Dim::Columns {
                first: col0,
                max: tile,
            };
            let grid = [Dim::Fixed(n_kv * blocks), along, Dim::Chunks(chunk)];
            let mut step = Step::new(format!("blk.{i}.attention"), shader, params, binds, grid);
            step.first_col = col0;
            steps.push(step);
        }
        let out = self.act("attn", n_head * hd);
        let params = AttnCombine {
            n_head,
            hd,
            hdp: s.hdp,
            window,
            chunk,
            n_chunks,
            out_stride: out.stride,
        };
        let binds = vec![
            bind("part", part),
            bind("cols", cols_buf),
            bind("out", out.buf),
        ];
        let shader = Shader {
            kernel: "attn_combine",
            slots: vec![],
            overrides: vec![("WG", 32)],
        };
        let grid = [Dim::Fixed(n_head), columns(cols), ONE];
        steps.push(Step::new(
            format!("blk.{i}.attn_combine"),
            shader,
            params,
            binds,
            grid,
        ));
        out
    }

    /// Output norm and logits of `cols` columns of `h`.
    fn finish(&mut self, steps: &mut Vec<Step>, h: Act, io: Io, cols: u32) {
        let model = self.model;
        let hn = self.act("hn", model.hyper.n_embd);
        self.norm(
            steps,
            "output_norm",
            &model.weights.output_norm,
            (h, hn),
            columns(cols),
        );
        let logits = Act {
            buf: io.logits,
            stride: self.sizes.logits_stride,
        };
        self.product(
            steps,
            &model.weights.output,
            hn,
            logits,
            0,
            cols,
            (Mode::Store, model.hyper.softcap),
        );
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

    pub(super) fn decode_tail(&mut self, io: Io) -> Vec<Step> {
        let mut steps = Vec::new();
        let (h, slots) = (self.act("h", self.model.hyper.n_embd), self.sizes.slots);
        self.finish(&mut steps, h, io, slots);
        let rows = self.scratch("rows", 0);
        self.sample(&mut steps, io, rows, columns(slots));
        steps
    }

    pub(super) fn prefill_tail(&mut self, io: Io) -> Vec<Step> {
        let mut steps = Vec::new();
        let n = self.model.hyper.n_embd;
        let (h, last) = (self.act("h", n), self.act("last", n));
        let shader = Shader {
            kernel: "take_row",
            slots: vec![],
            overrides: vec![("WG", 64)],
        };
        let binds = vec![
            bind("x", h.buf),
            bind("cols", io.prompt_cols),
            bind("out", last.buf),
        ];
        let grid = [Dim::Fixed(n.div_ceil(64)), ONE, ONE];
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

    pub(super) fn logits_tail(&mut self, io: Io) -> Vec<Step> {
        let mut steps = Vec::new();
        let h = self.act("h", self.model.hyper.n_embd);
        self.finish(&mut steps, h, io, self.sizes.logits_cols);
        steps
    }
}

fn columns(max: u32) -> Dim {
    Dim::Columns { first: 0, max }
}
