//! The sizes a program is made for, and where its bytes go.

use super::product::MAX_COLUMNS;
use crate::kernel::Caps;
use crate::model::{Hyper, Model};
use crate::{Error, Result};

/// Positions in one page of the KV cache; divides the attention tile of 256.
pub const PAGE_LEN: u32 = 64;
/// Positions that one attention workgroup scores at a time (`TILE` in the shader).
pub const TILE: u32 = 256;
/// log2 of the 16-byte words in a line of a KV cache that is a texture (`slots/kv_texture.wgsl`).
pub const KV_LINE_SHIFT: u32 = 6;
/// Tokens the ring of produced ids can hold per slot.
pub const RING_LEN: u32 = 64;

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// Repacked weights, norms, rotary tables.
    Weights,
    /// Key and value cache.
    Kv,
    /// Activations, logits, step state.
    Scratch,
    /// Parameters of all steps.
    Params,
    /// What weights pass through on their way to the device.
    Staging,
    /// What results pass through on their way to the host, and whatever measures.
    Readback,
}

impl Pool {
    /// All pools.
    pub const ALL: [Pool; 6] = [
        Pool::Weights,
        Pool::Kv,
        Pool::Scratch,
        Pool::Params,
        Pool::Staging,
        Pool::Readback,
    ];

    /// `weights`, `kv`, ...
    pub fn name(self) -> &'static str {
        match self {
            Pool::Weights => "weights",
            Pool::Kv => "kv",
            Pool::Scratch => "scratch",
            Pool::Params => "params",
            Pool::Staging => "staging",
            Pool::Readback => "readback",
        }
    }
}

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Context in positions; `None`: the model's, as far as it fits a binding.
    pub context: Option<u32>,
    /// Sequences that can run side by side.
    pub slots: u32,
    /// Columns of a prompt chunk; `None`: by device.
    pub chunk: Option<u32>,
}

/// Fixed sizes of a program, all derived once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Positions per sequence.
    pub context: u32,
    /// Sequence slots.
    pub slots: u32,
    /// Columns of a prompt chunk.
    pub chunk: u32,
    /// Columns of a chunk whose logits are all wanted.
    pub logits_cols: u32,
    /// Columns every activation buffer has room for.
    pub width: u32,
    /// Pages of one sequence.
    pub pages_per_slot: u32,
    /// f32 from row to row of the logits.
    pub logits_stride: u32,
    /// Head length rounded up to 8.
    pub hdp: u32,
}

/// f32 from column to column of an activation of `n` elements: 256-byte steps, so that any column
/// can be bound, and room for a whole last block of 32 weights.
pub fn stride(n: u32) -> u32 {
    n.next_multiple_of(64)
}

/// Bytes of KV cache that are taken without being asked for.
const DEFAULT_KV: u64 = 1 << 30;

/// The largest context (in whole pages) whose cache stays within [`DEFAULT_KV`] for all slots: many
/// models were trained for contexts whose cache is far larger than the model. `-c` overrides it.
fn default_context(h: &Hyper, hdp: u32, slots: u32) -> u32 {
    let position = 2 * 2 * u64::from(h.n_head_kv * hdp) * h.layers.len() as u64;
    let pages = DEFAULT_KV / (position * u64::from(PAGE_LEN) * u64::from(slots));
    u32::try_from(pages.max(1) * u64::from(PAGE_LEN)).unwrap_or(u32::MAX)
}

impl Sizes {
    /// Fits a wish to a model and a device.
    pub fn fit(h: &Hyper, caps: &Caps, wish: Wish) -> Result<Sizes> {
        let hdp = h.head_dim.next_multiple_of(8);
        let slots = wish.slots.max(1);
        let kv_position = u64::from(h.n_head_kv * hdp * 2);
        // A layer's K (and V) of all slots is one binding.
        let most = caps.max_storage / (kv_position * u64::from(slots)) / u64::from(PAGE_LEN)
            * u64::from(PAGE_LEN);
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(1 << 24);
        let context = match wish.context {
            Some(0) => return Err(Error::ContextTooSmall { context: 0 }),
            Some(c) if c > most => {
                return Err(Error::ContextTooLarge {
                    context: c,
                    largest: most,
                    slots,
                    limit: caps.max_storage,
                });
            }
            Some(c) => c,
            None if most == 0 => {
                return Err(Error::ContextTooLarge {
                    context: PAGE_LEN,
                    largest: 0,
                    slots,
                    limit: caps.max_storage,
                });
            }
            None => h.context.min(most).min(default_context(h, hdp, slots)),
        };
        let logits_stride = stride(h.n_vocab);
        let tile = if caps.software { 8 } else { 32 };
        let rows = caps.max_storage / (u64::from(logits_stride) * 4);
        if rows < u64::from(slots) {
            return Err(Error::LogitsTooLarge {
                n_vocab: h.n_vocab,
                slots,
                limit: caps.max_storage,
            });
        }
        let chunk = wish
            .chunk
            .unwrap_or(if caps.software { 64 } else { 128 })
            .clamp(1, 1024);
        let chunk = chunk
            .min(context.next_multiple_of(tile))
            .next_multiple_of(tile);
        Ok(Sizes {
            context,
            slots,
            chunk,
            logits_cols: rows.min(u64::from(tile)) as u32,
            width: chunk.max(slots.next_multiple_of(tile)),
            pages_per_slot: context.div_ceil(PAGE_LEN),
            logits_stride,
            hdp,
        })
    }

    /// The same with fewer columns in a prompt chunk; `None`: there are but eight, a tile of columns.
    pub fn narrower(&self, caps: &Caps) -> Option<Sizes> {
        // Up to sixteen columns no kernel works on more than eight or all of them at a time.
        let tiles = |n: u32| {
            let tile = if caps.software || n <= MAX_COLUMNS {
                8
            } else {
                32
            };
            n.next_multiple_of(tile)
        };
        let chunk = tiles(self.chunk / 2);
        let logits_cols = self.logits_cols.min(chunk);
        (chunk > 0 && chunk < self.chunk).then_some(Sizes {
            chunk,
            logits_cols,
            width: chunk.max(tiles(self.slots)),
            ..*self
        })
    }

    /// log2 of the pages in a layer of a KV cache that is a texture: four, or more where that were more
    /// layers than the device allows.
    pub fn layer_shift(&self, caps: &Caps) -> u32 {
        let pages = self.slots * self.pages_per_slot;
        (2..32)
            .find(|shift| pages.div_ceil(1 << shift) <= caps.max_layers)
            .unwrap_or(31)
    }

    /// Positions per attention workgroup when decoding: split, but into at most 64 parts.
    pub fn decode_chunk(&self) -> u32 {
        self.context.div_ceil(64).next_multiple_of(TILE)
    }

    /// Bytes of K and V per position over all layers.
    pub fn kv_bytes_per_position(&self, h: &Hyper) -> u64 {
        2 * 2 * u64::from(h.n_head_kv * self.hdp) * h.layers.len() as u64
    }
}

/// Bytes of repacked weights that one decode step must read: every matrix once, of the embedding
/// only one row (unless it is the output matrix too).
pub fn weight_bytes_per_token(m: &Model) -> u64 {
    let tied = std::sync::Arc::ptr_eq(&m.weights.output, &m.weights.token_embd);
    m.weights
        .matrices()
        .iter()
        .skip(usize::from(!tied))
        .map(|m| (m.row_vec4s() * 16 + 4) as u64 * m.rows as u64)
        .sum()
}
