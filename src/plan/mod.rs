//! A forward pass as plain data: buffers by number, steps that name a shader, its parameters, its
//! bindings and its grid. A plan can be printed, compared, run on the GPU or on the CPU twins.

pub mod alone;
pub mod attend;
pub mod build;
pub mod cost;
pub mod fit;
pub mod forward;
pub mod pair;
pub mod product;
pub mod show;
pub mod sizes;
mod tail;
pub mod tuning;

use std::ops::RangeInclusive;
use std::sync::Arc;

pub use build::{build, build_tuned};
pub use fit::fit;
pub use sizes::{Pool, Sizes};
pub use tuning::{Shape, Tuning};

use crate::kernel::params::Params;
use crate::kernel::{Kernel, Shader};
use crate::model::matrix::SharedMatrix;

/// Number of a buffer in [`Program::buffers`].
pub type BufId = usize;

/// What a buffer starts out with.
#[derive(Clone)]
pub enum Init {
    /// Zeros.
    Zero,
    /// Numbers, from the start.
    F32(Arc<Vec<f32>>),
    /// Words, from the start.
    U32(Arc<Vec<u32>>),
    /// Rows of a matrix, repacked: all row records, then the row multipliers, four a word.
    Rows {
        /// The matrix.
        matrix: SharedMatrix,
        /// First row of this shard.
        first: usize,
        /// Rows of this shard.
        rows: usize,
    },
}

/// One persistent GPU resource.
#[derive(Clone)]
pub struct Buffer {
    /// Name for traces and errors: `blk.3.attn_q+k+v`, `k.3`, `h`.
    pub name: String,
    /// Which pool it counts to.
    pub pool: Pool,
    /// Size in bytes.
    pub bytes: u64,
    /// `Some(shift)`: an rgba32uint texture of `2^shift` texels a line instead of a buffer.
    pub texture: Option<u32>,
    /// Layers of that texture, each as long as the others; 0: it is a plain one.
    pub layers: u32,
    /// First contents.
    pub init: Init,
}

/// A buffer bound to a name in the shader, from a byte offset on.
#[derive(Clone, Debug, PartialEq)]
pub struct Bind {
    /// Name of the variable in the shader.
    pub name: &'static str,
    /// The buffer.
    pub buf: BufId,
    /// First byte, a multiple of 256.
    pub offset: u64,
}

/// One dimension of a grid; what depends on the batch is filled in when a step is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always this many.
    Fixed(u32),
    /// One per live column from `first` on, at most `max`; none: the step is left out.
    Columns {
        /// First column.
        first: u32,
        /// Most columns.
        max: u32,
    },
    /// One per `tile` live columns.
    Tiles(u32),
    /// One per `chunk` positions of the longest sequence.
    Chunks(u32),
}

/// One dispatch.
#[derive(Clone)]
pub struct Step {
    /// What it computes: `blk.3.attn_q+k+v`.
    pub label: String,
    /// The pipeline.
    pub shader: Shader,
    /// Bytes of the kernel's parameter struct.
    pub params: Vec<u8>,
    /// Bindings, by name.
    pub binds: Vec<Bind>,
    /// Grid.
    pub grid: [Dim; 3],
    /// First column it works on: with no more live columns than that it is left out.
    pub first_col: u32,
    /// Under what tuning knows it, if it can be cut in several ways.
    pub shape: Option<Shape>,
    /// Live columns of the batches it is for; others leave it out. Of steps that do the same in different
    /// ways a batch has one.
    pub live: RangeInclusive<u32>,
}

/// What a batch looks like when steps are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Live columns.
    pub cols: u32,
    /// Positions of the longest sequence, this batch included.
    pub kv_len: u32,
}

impl Step {
    /// A step of a kernel; the parameter block's type must be the kernel's.
    pub fn new<P: Params>(
        label: String,
        shader: Shader,
        params: P,
        binds: Vec<Bind>,
        grid: [Dim; 3],
    ) -> Step {
        assert!(
            P::FIELDS == self_kernel(&shader).fields,
            "parameters of another kernel at {label}"
        );
        Step {
            label,
            shader,
            params: bytemuck::bytes_of(&params).to_vec(),
            binds,
            grid,
            first_col: 0,
            shape: None,
            live: 1..=u32::MAX,
        }
    }

    /// The kernel table's row.
    pub fn kernel(&self) -> &'static Kernel {
        self_kernel(&self.shader)
    }

    /// Workgroups for a batch; `None` if there is nothing to do.
    pub fn grid(&self, batch: Batch) -> Option<[u32; 3]> {
        if batch.cols <= self.first_col || !self.live.contains(&batch.cols) {
            return None;
        }
        let g = self.grid.map(|d| match d {
            Dim::Fixed(n) => n,
            Dim::Columns { first, max } => batch.cols.saturating_sub(first).min(max),
            Dim::Tiles(tile) => batch.cols.div_ceil(tile),
            Dim::Chunks(chunk) => batch.kv_len.div_ceil(chunk),
        });
        (!g.contains(&0)).then_some(g)
    }

    /// The parameters as their struct.
    pub fn params<P: Params>(&self) -> P {
        bytemuck::pod_read_unaligned(&self.params)
    }
}

fn self_kernel(s: &Shader) -> &'static Kernel {
    crate::kernel::by_name(s.kernel)
}

/// A list of steps for up to `width` columns: `body` computes the hidden states and fills the KV
/// cache, `tail` turns them into tokens or logits.
#[derive(Clone)]
pub struct Plan {
    /// `decode`, `prefill`, `logits`.
    pub name: &'static str,
    /// Most columns.
    pub width: u32,
    /// Embedding and layers.
    pub body: Vec<Step>,
    /// From the last hidden state on.
    pub tail: Vec<Step>,
}

/// Which plan, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// One step for all slots, tail included.
    Decode,
    /// A prompt chunk, hidden states only.
    Prefill,
    /// The last prompt chunk: the tail samples a token.
    PrefillLast,
    /// A prompt chunk with all logits.
    Logits,
}

/// All plans of a loaded model and the buffers they share.
pub struct Program {
    /// Every persistent resource.
    pub buffers: Vec<Buffer>,
    /// One step for all slots.
    pub decode: Plan,
    /// A chunk of one slot's prompt; the tail samples the first token.
    pub prefill: Plan,
    /// A chunk of one slot's prompt; the tail leaves every column's logits in `logits`.
    pub logits: Plan,
    /// The buffers the host writes or reads.
    pub io: Io,
    /// The sizes everything was made for.
    pub sizes: Sizes,
}

impl Program {
    /// Steps on buffers of their own, as the body of the decode plan: no model, nothing that an engine
    /// could run.
    pub fn alone(buffers: Vec<Buffer>, body: Vec<Step>) -> Program {
        let plan = |name, body| Plan {
            name,
            width: 1,
            body,
            tail: vec![],
        };
        Program {
            buffers,
            decode: plan("decode", body),
            prefill: plan("prefill", vec![]),
            logits: plan("logits", vec![]),
            io: Io::default(),
            sizes: Sizes::default(),
        }
    }

    /// The plan meant, and whether its tail is run.
    pub fn plan(&self, which: Which) -> (&Plan, bool) {
        match which {
            Which::Decode => (&self.decode, true),
            Which::Prefill => (&self.prefill, false),
            Which::PrefillLast => (&self.prefill, true),
            Which::Logits => (&self.logits, true),
        }
    }

    /// The steps of a plan in order.
    pub fn steps(&self, which: Which) -> impl Iterator<Item = &Step> {
        let (plan, tail) = self.plan(which);
        plan.body
            .iter()
            .chain(plan.tail.iter().filter(move |_| tail))
    }
}

/// Buffers that cross to the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Io {
    /// Header and one column per slot: (token, position, slot, active).
    pub cols: BufId,
    /// Header and columns of a prompt chunk; header = (columns, last column, 0, 0).
    pub prompt_cols: BufId,
    /// Slot of each logits row of a prompt (one row).
    pub prompt_rows: BufId,
    /// Page table, `[slot, pages_per_slot]`.
    pub pages: BufId,
    /// Sampling state, [`crate::kernel::params::Slot`] per slot.
    pub slots: BufId,
    /// Tokens of each sequence, `[slot, context]`.
    pub history: BufId,
    /// Produced tokens, `[slot, ring_len]`.
    pub ring: BufId,
    /// `[rows, logits_stride]`
    pub logits: BufId,
}
