//! The attention part of a layer: rotation and cache, scores and values, joining of chunks.

use super::build::{Builder, bind};
use super::forward::{ONE, columns};
use super::product::{Act, X};
use super::sizes::{PAGE_LEN, TILE, stride};
use super::{Bind, BufId, Dim, Step};
use crate::kernel::choose::UNIFORM_X;
use crate::kernel::params::{Attention, AttnCombine, RopeKv};
use crate::kernel::{Caps, Shader};
use crate::model::Layer;

impl Builder<'_> {
    /// Bias, head norms and rotation of q and k, and the write to the cache.
    pub(super) fn rope_kv(
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
            layer_shift: s.layer_shift(self.caps),
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
        let mut shader = self.group_shader("rope_kv", 32);
        shader.slots.push(self.caps.cache());
        steps.push(Step::new(
            format!("blk.{i}.rope_kv"),
            shader,
            params,
            binds,
            grid,
        ));
    }

    /// Attention of a layer; returns where its output is.
    pub(super) fn attention(
        &mut self,
        steps: &mut Vec<Step>,
        i: usize,
        cols_buf: BufId,
        cols: u32,
    ) -> Act {
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
        let plans = [s.slots, s.chunk, s.logits_cols];
        let narrow = plans.into_iter().filter(|n| *n <= 8).max().unwrap_or(0);
        let largest = part_bytes(s.width, 1).max(part_bytes(narrow, decode_chunks));
        let part = self.scratch("attn_part", largest);
        let q = self.act("q", n_head * s.hdp);
        let uniform = self.caps.software && self.caps.uniform_x(q.stride * 4);
        let tile = if uniform {
            (UNIFORM_X / (q.stride * 4)).min(cols)
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
                layer_shift: s.layer_shift(self.caps),
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
            let shader = attention_shader(self.caps, uniform, heads, s.hdp);
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
            overrides: vec![("WG", self.caps.lanes(32))],
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
}

/// The attention kernel for `heads` query heads a workgroup of `hdp` dimensions each, q through a
/// uniform or not.
pub fn attention_shader(caps: &Caps, uniform: bool, heads: u32, hdp: u32) -> Shader {
    if caps.kv_texture() && uniform {
        let words = hdp / 8;
        return Shader {
            kernel: "attention_rows",
            slots: vec![X::Spread.slot(), caps.kv()],
            overrides: vec![
                ("HEADS", heads),
                ("BLOCKS", words.div_ceil(8)),
                ("TAIL", words % 4),
                ("WHOLE", u32::from(words >= 4)),
            ],
        };
    }
    let x = if uniform { X::Uniform } else { X::Storage };
    Shader {
        kernel: "attention",
        slots: vec![caps.group(), x.slot(), caps.kv()],
        overrides: vec![("WG", caps.group_lanes(64))],
    }
}
