//! The forward pass, written once for every architecture and every kind of batch.
//!
//! A batch is a list of columns, each one token at one position of one slot. Decoding has a column
//! per slot, a prompt chunk has consecutive positions of one slot; the steps are the same.

use super::build::{Builder, bind, mult_at};
use super::product::{Act, Product};
use super::{BufId, Dim, Step};
use crate::kernel::Shader;
use crate::kernel::params::{GetRows, Glu, Mode, Norm};
use crate::model::matrix::SharedMatrix;
use crate::model::{self, Layer};

pub(super) const ONE: Dim = Dim::Fixed(1);
impl Builder<'_> {
    /// Embedding and layers for up to `cols` columns described by the buffer `cols_buf`. Leaves the
    /// residual stream in `h` and, where [`Self::leaves_norm`] says so, the output norm of it in `hn`;
    /// returns whether that lacks its root (see [`Product::root`]).
    pub(super) fn body(&mut self, cols_buf: BufId, cols: u32) -> (Vec<Step>, Option<u32>) {
        let model = self.model;
        let h = &model.hyper;
        let mut steps = Vec::new();
        let gain = &model.weights.layers[0].attn_norm;
        let mut root = None;
        if self.fuses_norms(cols) {
            root = self.embed(&mut steps, cols_buf, cols, Some(gain));
        } else {
            self.embed(&mut steps, cols_buf, cols, None);
            let acts = (self.act("h", h.n_embd), self.act("hn", h.n_embd));
            self.norm(&mut steps, "blk.0.attn_norm", gain, acts, columns(cols));
        }
        for (i, layer) in model.weights.layers.iter().enumerate() {
            root = self.layer(&mut steps, i, layer, root, cols_buf, cols);
        }
        (steps, root)
    }

    /// Whether the layers leave the output norm in `hn`.
    pub(super) fn leaves_norm(&self, cols: u32) -> bool {
        let last = self.model.weights.layers.last();
        self.fuses_norms(cols) || last.is_some_and(|l| l.post_ffw_norm.is_some())
    }

    fn layer(
        &mut self,
        steps: &mut Vec<Step>,
        i: usize,
        l: &Layer,
        root: Option<u32>,
        cols_buf: BufId,
        cols: u32,
    ) -> Option<u32> {
        let model = self.model;
        let hy = &model.hyper;
        let p = format!("blk.{i}");
        let hn = self.act("hn", hy.n_embd);
        let qkv = self.act("qkv", hy.q_dim() + 2 * hy.kv_dim());
        let mut rest = &l.qkv[..];
        while let [(row, m), others @ ..] = rest {
            let second = others.first().filter(|(_, s)| self.pairs(m, s, cols));
            let product = Product {
                out_row: *row,
                root,
                second: second.map(|(row, s)| (*row, s)),
                ..Product::new(m, hn, qkv)
            };
            self.product(steps, product, cols);
            rest = &others[usize::from(second.is_some())..];
        }
        self.rope_kv(steps, i, l, qkv, cols_buf, cols);
        let attn = self.attention(steps, i, cols_buf, cols);
        let last = model.weights.layers.len() - 1;
        let (next, next_name) = if i < last {
            let name = format!("blk.{}.attn_norm", i + 1);
            (&model.weights.layers[i + 1].attn_norm, name)
        } else {
            (&model.weights.output_norm, "output_norm".into())
        };

        // Attention branch back into the residual stream, then the FFN's norm.
        let post = (l.post_attention_norm.as_deref(), "post_attention_norm");
        let norm = (&*l.ffn_norm, format!("{p}.ffn_norm"));
        let root = self.branch(steps, &p, &l.attn_output, attn, post, norm, cols);

        // FFN branch, then the next layer's norm (the output norm is the tail's where it is a step).
        let ff = self.ffn(steps, &p, l, hn, root, cols);
        let post = (l.post_ffw_norm.as_deref(), "post_ffw_norm");
        if i == last && !self.leaves_norm(cols) {
            let h = self.act("h", hy.n_embd);
            let product = Product {
                mode: Mode::Add,
                ..Product::new(&l.ffn_down, ff, h)
            };
            return self.product(steps, product, cols);
        }
        self.branch(steps, &p, &l.ffn_down, ff, post, (next, next_name), cols)
    }

    /// A branch's last product back into the residual stream, through the architecture's post-norm if
    /// there is one, and the norm that follows into `hn`. Returns the `root` of who reads that.
    #[allow(clippy::too_many_arguments)]
    fn branch(
        &mut self,
        steps: &mut Vec<Step>,
        p: &str,
        matrix: &SharedMatrix,
        x: Act,
        (post, post_name): (Option<&[f32]>, &str),
        (norm, norm_name): (&[f32], String),
        cols: u32,
    ) -> Option<u32> {
        let n = self.model.hyper.n_embd;
        let (h, hn) = (self.act("h", n), self.act("hn", n));
        if let Some(post) = post {
            let branch = self.act("branch", n);
            self.product(steps, Product::new(matrix, x, branch), cols);
            self.post_norm(steps, format!("{p}.{post_name}"), post, norm, cols);
            return None;
        }
        let fused = self.fuses_norms(cols);
        let product = Product {
            mode: Mode::Add,
            next: fused.then_some((&norm_name, norm)),
            ..Product::new(matrix, x, h)
        };
        let root = self.product(steps, product, cols);
        if !fused {
            self.norm(steps, &norm_name, norm, (h, hn), columns(cols));
        }
        root
    }

    fn ffn(
        &mut self,
        steps: &mut Vec<Step>,
        p: &str,
        l: &Layer,
        hn: Act,
        root: Option<u32>,
        cols: u32,
    ) -> Act {
        let hy = &self.model.hyper;
        let mode = match hy.act {
            model::Act::Silu => Mode::Silu,
            model::Act::Gelu => Mode::Gelu,
        };
        let n_ff = hy.n_ff;
        let ff = self.act("ff", n_ff);
        if let [fused] = &l.ffn_gate_up[..] {
            let product = Product {
                mode,
                root,
                ..Product::new(fused, hn, ff)
            };
            self.product(steps, product, cols);
            return ff;
        }
        let both = self.act("gate+up", 2 * n_ff);
        for (i, m) in l.ffn_gate_up.iter().enumerate() {
            let product = Product {
                out_row: i as u32 * n_ff,
                root,
                ..Product::new(m, hn, both)
            };
            self.product(steps, product, cols);
        }
        let lanes = self.caps.lanes(64);
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
            overrides: vec![("WG", lanes)],
        };
        let grid = [Dim::Fixed(n_ff.div_ceil(lanes)), columns(cols), ONE];
        steps.push(Step::new(
            format!("{p}.ffn_act"),
            shader,
            params,
            binds,
            grid,
        ));
        ff
    }

    /// Embedding rows; with the gain of the norm that follows that is begun, see [`Product::next`].
    fn embed(
        &mut self,
        steps: &mut Vec<Step>,
        cols_buf: BufId,
        cols: u32,
        gain: Option<&[f32]>,
    ) -> Option<u32> {
        let model = self.model;
        let m = &model.weights.token_embd;
        let n = model.hyper.n_embd;
        let (h, hn) = (self.act("h", n), self.act("hn", n));
        let nb = m.k.div_ceil(32) as u32;
        let lanes = self.caps.lanes(32);
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
                parts: nb.div_ceil(4),
            };
            let mut slots = vec![("quant", m.ty.shader), self.caps.weights()];
            let mut binds = vec![bind("w", buf), bind("cols", cols_buf), bind("out", h.buf)];
            if let Some(gain) = gain {
                let whole = || {
                    let mut v = gain.to_vec();
                    v.resize(32 * nb as usize, 0.0);
                    v
                };
                binds.push(bind("hn", hn.buf));
                binds.push(bind("gain", self.numbers("blk.0.attn_norm", whole)));
                binds.push(bind("sums_out", self.sums()));
                slots.push(("embed", "slots/embed_norm.wgsl"));
            } else {
                slots.push(("embed", "slots/embed_plain.wgsl"));
            }
            let shader = Shader {
                kernel: "get_rows",
                slots,
                overrides: vec![("WG", lanes)],
            };
            let grid = [Dim::Fixed(nb.div_ceil(lanes)), columns(cols), ONE];
            steps.push(Step::new("token_embd".into(), shader, params, binds, grid));
        }
        gain.map(|_| nb)
    }

    pub(super) fn group_shader(&self, kernel: &'static str, lanes: u32) -> Shader {
        Shader {
            kernel,
            slots: vec![self.caps.group()],
            overrides: vec![("WG", self.caps.group_lanes(lanes))],
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
