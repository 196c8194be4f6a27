//! The forward pass, written once for every architecture and every kind of batch.
//!
//! A batch is a list of columns, each one token at one position of one slot. Decoding has a column
//! per slot, a prompt chunk has consecutive positions of one slot; the steps are the same.

use super::build::{Builder, bind, mult_at};
use super::product::Act;
use super::{BufId, Dim, Step};
use crate::kernel::Shader;
use crate::kernel::params::{GetRows, Glu, Mode, Norm};
use crate::model::{self, Layer};

pub(super) const ONE: Dim = Dim::Fixed(1);
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
                mult: mult_at(self.caps, m, rows),
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

    pub(super) fn group_shader(&self, kernel: &'static str, lanes: u32) -> Shader {
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

    pub(super) fn norm(
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
}

pub(super) fn columns(max: u32) -> Dim {
    Dim::Columns { first: 0, max }
}
