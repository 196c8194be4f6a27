//! Builds the program of a model for a device: buffers once, then one plan per kind of batch.

use std::collections::HashMap;
use std::sync::Arc;

use super::product::shard_rows;
use super::sizes::{KV_LINE_SHIFT, PAGE_LEN, RING_LEN};
use super::{Bind, BufId, Buffer, Init, Io, Plan, Pool, Program, Sizes, Tuning};
use crate::kernel::Caps;
use crate::model::Model;
use crate::model::matrix::{SharedMatrix, TILE_ROWS};

/// Collects buffers; plans are built into it by `forward.rs` and `product.rs`.
pub struct Builder<'a> {
    pub(super) model: &'a Model,
    pub(super) caps: &'a Caps,
    pub(super) tuning: &'a Tuning,
    pub(super) sizes: Sizes,
    pub(super) buffers: Vec<Buffer>,
    /// The plan being built is the one for decoding.
    pub(super) decoding: bool,
    /// Batches of the plan being built may have few of its columns; see [`super::product::tiles`].
    pub(super) ragged: bool,
    named: HashMap<String, BufId>,
    /// Shards by matrix (its address): (buffer, first row, rows).
    shards: HashMap<usize, Vec<(BufId, usize, usize)>>,
}

/// All plans of `model` on a device with `caps`.
pub fn build(model: &Model, caps: &Caps, sizes: Sizes) -> Program {
    build_tuned(model, caps, sizes, &Tuning::default())
}

/// [`build`] with products cut as measurement found best.
pub fn build_tuned(model: &Model, caps: &Caps, sizes: Sizes, tuning: &Tuning) -> Program {
    let mut b = Builder::new(model, caps, sizes, tuning);
    for m in model.weights.matrices() {
        b.upload(&m);
    }
    let io = b.io();
    let (body, root) = b.body(io.cols, sizes.slots);
    let decode = Plan {
        name: "decode",
        width: sizes.slots,
        body,
        tail: b.decode_tail(io, root),
    };
    b.decoding = false;
    b.ragged = true; // a prompt's last chunk, and a short prompt
    let (body, _) = b.body(io.prompt_cols, sizes.chunk);
    b.ragged = false;
    let prefill = Plan {
        name: "prefill",
        width: sizes.chunk,
        body,
        tail: b.prefill_tail(io),
    };
    let (body, root) = b.body(io.prompt_cols, sizes.logits_cols);
    let logits = Plan {
        name: "logits",
        width: sizes.logits_cols,
        body,
        tail: b.logits_tail(io, root),
    };
    Program {
        buffers: b.buffers,
        decode,
        prefill,
        logits,
        io,
        sizes,
    }
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        model: &'a Model,
        caps: &'a Caps,
        sizes: Sizes,
        tuning: &'a Tuning,
    ) -> Builder<'a> {
        Builder {
            model,
            caps,
            tuning,
            sizes,
            buffers: Vec::new(),
            decoding: true,
            ragged: false,
            named: HashMap::new(),
            shards: HashMap::new(),
        }
    }
}

impl Builder<'_> {
    fn io(&mut self) -> Io {
        let s = self.sizes;
        let words = |n: u32| u64::from(n) * 4;
        let rows: Vec<u32> = (0..s.slots).collect();
        self.constant(
            "rows",
            Pool::Scratch,
            Init::U32(Arc::new(rows)),
            words(s.slots),
        );
        Io {
            cols: self.scratch("cols", words(4 * (1 + s.slots))),
            prompt_cols: self.scratch("prompt_cols", words(4 * (1 + s.width))),
            prompt_rows: self.scratch("prompt_rows", 16),
            pages: self.scratch("pages", words(s.slots * s.pages_per_slot)),
            slots: self.scratch("slots", words(16 * s.slots)),
            history: self.scratch("history", words(s.slots) * u64::from(s.context)),
            ring: self.scratch("ring", words(s.slots * RING_LEN)),
            logits: self.scratch(
                "logits",
                words(s.logits_stride) * u64::from(s.logits_cols.max(s.slots)),
            ),
        }
    }

    /// A zeroed buffer of that name, made on first use.
    pub(super) fn scratch(&mut self, name: &str, bytes: u64) -> BufId {
        self.constant(name, Pool::Scratch, Init::Zero, bytes)
    }

    /// A layer's K or V cache.
    pub(super) fn kv(&mut self, name: &str) -> BufId {
        let s = self.sizes;
        let h = &self.model.hyper;
        let page = u64::from(PAGE_LEN * h.n_head_kv * s.hdp) * 2;
        if !self.caps.kv_texture() {
            let bytes = u64::from(s.slots * s.pages_per_slot) * page;
            return self.constant(name, Pool::Kv, Init::Zero, bytes);
        }
        let layers = (s.slots * s.pages_per_slot).div_ceil(1 << s.layer_shift(self.caps));
        let bytes = u64::from(layers << s.layer_shift(self.caps)) * page;
        let id = self.constant(name, Pool::Kv, Init::Zero, bytes);
        self.buffers[id].texture = Some(KV_LINE_SHIFT);
        self.buffers[id].layers = layers;
        id
    }

    /// Numbers that never change, made on first use.
    pub(super) fn numbers(&mut self, name: &str, make: impl FnOnce() -> Vec<f32>) -> BufId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let v = make();
        let bytes = v.len() as u64 * 4;
        self.constant(name, Pool::Weights, Init::F32(Arc::new(v)), bytes)
    }

    pub(super) fn constant(&mut self, name: &str, pool: Pool, init: Init, bytes: u64) -> BufId {
        if let Some(id) = self.named.get(name) {
            assert!(
                self.buffers[*id].bytes >= bytes,
                "{name} is wanted in two sizes"
            );
            return *id;
        }
        let id = self.buffers.len();
        let bytes = bytes.next_multiple_of(16);
        self.buffers.push(Buffer {
            name: name.to_string(),
            pool,
            bytes,
            texture: None,
            layers: 0,
            init,
        });
        self.named.insert(name.to_string(), id);
        id
    }

    pub(super) fn upload(&mut self, m: &SharedMatrix) {
        let per = shard_rows(self.caps, m);
        let mut shards = Vec::new();
        for first in (0..m.rows).step_by(per) {
            let rows = per.min(m.rows - first);
            let id = self.buffers.len();
            self.buffers.push(shard(self.caps, m, first, rows));
            shards.push((id, first, rows));
        }
        self.shards.insert(Arc::as_ptr(m) as usize, shards);
    }

    /// Shards of a matrix: (buffer, first row, rows).
    pub(super) fn shards(&self, m: &SharedMatrix) -> &[(BufId, usize, usize)] {
        &self.shards[&(Arc::as_ptr(m) as usize)]
    }
}

/// A binding from the start of a buffer.
pub(super) fn bind(name: &'static str, buf: BufId) -> Bind {
    Bind {
        name,
        buf,
        offset: 0,
    }
}

/// Where the row multipliers of `rows` rows begin, in 16-byte words.
pub fn mult_at(caps: &Caps, m: &SharedMatrix, rows: usize) -> u32 {
    let rows = if caps.software {
        rows.next_multiple_of(TILE_ROWS)
    } else {
        rows
    };
    (rows * m.row_vec4s()) as u32
}

/// The resource for `rows` rows of a matrix from row `first` on, as a device with `caps` wants it.
pub fn shard(caps: &Caps, m: &SharedMatrix, first: usize, rows: usize) -> Buffer {
    let mut words = (mult_at(caps, m, rows) as usize + rows.div_ceil(4)) as u64;
    let texture = caps.software.then(|| {
        // Short lines waste little at the end; a side has a limit.
        let mut shift = 6;
        while words.div_ceil(1 << shift) > u64::from(caps.max_texture) {
            shift += 1;
        }
        words = words.next_multiple_of(1 << shift);
        shift
    });
    Buffer {
        name: m.label.clone(),
        pool: Pool::Weights,
        bytes: words * 16,
        texture,
        layers: 0,
        init: Init::Rows {
            matrix: m.clone(),
            first,
            rows,
        },
    }
}
