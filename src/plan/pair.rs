//! Two matrices of different types times the same activations in one dispatch: q, k and v, of which files
//! keep one more exactly than the others.

use super::BufId;
use super::Dim;
use super::build::{Builder, mult_at};
use super::product::{Cut, MAX_COLUMNS, group, split};
use crate::kernel::params::MatVec;
use crate::kernel::{Caps, Shader};
use crate::model::Matrix;
use crate::model::matrix::SharedMatrix;

/// The second matrix of a product.
pub struct Second {
    matrix: SharedMatrix,
    /// Its only shard.
    pub(super) buf: BufId,
    mult: u32,
    tex_shift: u32,
    out_row: u32,
}

impl Builder<'_> {
    /// Whether two matrices can be one dispatch for `cols` columns: no prompt chunk, whose dispatches are
    /// long, and no shards.
    pub(super) fn pairs(&self, a: &SharedMatrix, b: &SharedMatrix, cols: u32) -> bool {
        let whole = |m| self.shards(m).len() == 1;
        self.decoding
            && !self.caps.avoid.pairs
            && cols <= MAX_COLUMNS
            && whole(a)
            && whole(b)
            && a.k == b.k
    }

    /// A matrix that goes with another one; its first row is stored at `out_row`.
    pub(super) fn second(&self, out_row: u32, matrix: &SharedMatrix) -> Second {
        let (buf, _, rows) = self.shards(matrix)[0];
        assert_eq!(rows, matrix.rows, "{} is sharded", matrix.label);
        Second {
            matrix: matrix.clone(),
            buf,
            mult: mult_at(self.caps, matrix, rows),
            tex_shift: self.buffers[buf].texture.unwrap_or(0),
            out_row,
        }
    }
}

impl Second {
    /// Adds what the kernel must know of it.
    pub(super) fn params(&self, p: &mut MatVec) {
        p.row_vec4s2 = self.matrix.row_vec4s() as u32;
        p.mult2 = self.mult;
        p.rows2 = self.matrix.rows as u32;
        p.out_row2 = self.out_row;
        p.tex_shift2 = self.tex_shift;
    }

    /// Both matrices' pipeline and grid from the first one's, which has `rows` rows.
    pub(super) fn shader(
        &self,
        caps: &Caps,
        cut: Cut,
        first: Shader,
        rows: u32,
    ) -> (Shader, [Dim; 3]) {
        pair(caps, cut, first, &self.matrix, rows)
    }

    /// `blk.0.attn_q+k` and `blk.0.attn_v` as `blk.0.attn_q+k+v`.
    pub(super) fn label(&self, first: &str) -> String {
        let parts = self.matrix.label.rsplit(['.', '_']).next();
        format!("{first}+{}", parts.unwrap_or_default())
    }
}

/// The pipeline and grid of a product with two matrices, from those of the first one, which has `rows` rows.
pub fn pair(
    caps: &Caps,
    cut: Cut,
    first: Shader,
    second: &Matrix,
    rows: u32,
) -> (Shader, [Dim; 3]) {
    let mut shader = first;
    shader.kernel = match cut.kernel {
        "matvec" => "matvec2",
        "matvec_rows" => "matvec_rows2",
        other => panic!("no {other} for two matrices"),
    };
    shader.slots.retain(|(slot, _)| *slot != "sink");
    shader.slots.insert(1, ("quant2", second.ty.shader));
    let per = group(caps, cut);
    let groups = rows.div_ceil(per) + (second.rows as u32).div_ceil(per);
    let (a, b) = split(caps, groups);
    (shader, [a, b, Dim::Fixed(1)])
}
