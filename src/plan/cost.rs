//! What a step must read at least, for rooflines: repacked weights once, the positions of the KV cache
//! that its queries see. Activations, norms and tables are small beside them and are not counted.

use super::sizes::PAGE_LEN;
use super::{Batch, Dim, Init, Pool, Program, Step, Which};

/// Bytes that a step, or several, must read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Row records and row multipliers.
    pub weights: u64,
    /// Keys and values.
    pub kv: u64,
}

impl Bytes {
    /// Both.
    pub fn total(self) -> u64 {
        self.weights + self.kv
    }
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.weights += other.weights;
        self.kv += other.kv;
    }
}

impl Step {
    /// A `u32` field of the parameters by its name, if the kernel has it.
    pub fn param(&self, name: &str) -> Option<u32> {
        let fields = self.kernel().fields;
        let at = 4 * fields.iter().position(|f| *f == (name, "u32"))?;
        Some(u32::from_le_bytes(
            self.params.get(at..at + 4)?.try_into().ok()?,
        ))
    }

    /// Columns of a batch that this step works on.
    fn columns(&self, batch: Batch) -> u32 {
        let live = batch.cols.saturating_sub(self.first_col);
        let of_grid = self.grid.iter().find_map(|d| match d {
            Dim::Columns { first, max } => Some(batch.cols.saturating_sub(*first).min(*max)),
            _ => None,
        });
        let most = of_grid.or(self.param("n_cols")).unwrap_or(live);
        most.min(live)
    }
}

impl Program {
    /// What a step of a plan must read for a batch. When decoding, each column is a sequence of
    /// `kv_len` positions; else the columns are the last positions of one sequence.
    pub fn bytes(&self, step: &Step, which: Which, batch: Batch) -> Bytes {
        let mut sum = Bytes::default();
        if step.grid(batch).is_none() {
            return sum;
        }
        let cols = u64::from(step.columns(batch));
        let mut seen = Vec::new();
        for b in &step.binds {
            let buffer = &self.buffers[b.buf];
            if seen.contains(&b.buf) || !step.kernel().reads.contains(&b.name) {
                continue;
            }
            seen.push(b.buf);
            match (&buffer.init, buffer.pool) {
                (Init::Rows { matrix, rows, .. }, _) => {
                    let row = matrix.row_vec4s() as u64 * 16 + 4;
                    // An embedding is looked up, every other matrix is read whole.
                    let rows = match step.shader.kernel {
                        "get_rows" => cols.min(*rows as u64),
                        _ => *rows as u64,
                    };
                    sum.weights += row * rows;
                }
                (_, Pool::Kv) => {
                    let s = &self.sizes;
                    let pages = match step.param("layer_shift") {
                        Some(shift) if buffer.layers > 0 => buffer.layers << shift,
                        _ => s.slots * s.pages_per_slot,
                    };
                    let positions = u64::from(pages) * u64::from(PAGE_LEN);
                    let (sequences, queries) = match which {
                        Which::Decode => (cols, 1),
                        _ => (1, cols),
                    };
                    let window = u64::from(step.param("window").unwrap_or(0));
                    let seen = match window {
                        0 => u64::from(batch.kv_len),
                        w => u64::from(batch.kv_len).min(w + queries - 1),
                    };
                    sum.kv += buffer.bytes / positions * seen * sequences;
                }
                _ => {}
            }
        }
        sum
    }
}
