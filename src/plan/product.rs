//! Matrix products: which of the three kernels, in which tiles, over which shards.

use super::build::{Builder, mult_at};
use super::{Bind, BufId, Dim, Step};
use crate::kernel::choose::UNIFORM_X;
use crate::kernel::params::{MatVec, Mode};
use crate::kernel::{Caps, Shader};
use crate::model::Matrix;
use crate::model::matrix::{SharedMatrix, TILE_ROWS};
use crate::plan::sizes::stride;
use crate::plan::tuning::Shape;

/// A column-strided activation: buffer and f32 from column to column.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    /// The buffer.
    pub buf: BufId,
    /// f32 from column to column.
    pub stride: u32,
}

/// How a product is cut: kernel, lanes, columns per dispatch, how activations come in, who sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// `matvec`, `matvec_rows` or `matmul`.
    pub kernel: &'static str,
    /// 1 to [`MAX_COLUMNS`] columns in one pass over the weights (unused by `matmul`).
    pub columns: u32,
    /// How activations come in.
    pub x: X,
    /// Lanes of a workgroup (`matmul` has 128, always).
    pub lanes: u32,
    /// Teams of `matvec` are whole workgroups, summed through workgroup memory.
    pub shared: bool,
}

impl std::fmt::Display for Cut {
    /// `matvec, 64 lanes, 1 column, x_storage, team_subgroup`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stem = |file: &'static str| file.trim_start_matches("slots/").trim_end_matches(".wgsl");
        let x = stem(self.x.slot().1);
        let Cut { kernel, lanes, .. } = self;
        if *kernel == "matmul" {
            return write!(f, "{kernel}, {lanes} lanes, {x}");
        }
        let s = if self.columns == 1 { "" } else { "s" };
        write!(
            f,
            "{kernel}, {lanes} lanes, {} column{s}, {x}",
            self.columns
        )?;
        if *kernel == "matvec" {
            write!(f, ", {}", stem(self.team().1))?;
        }
        Ok(())
    }
}

impl Cut {
    /// The slot file for teams of lanes.
    fn team(&self) -> (&'static str, &'static str) {
        let file = match self.shared {
            true => "slots/team_shared.wgsl",
            false => "slots/team_subgroup.wgsl",
        };
        ("team", file)
    }
}

/// How a kernel gets its activations (slot `x`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum X {
    /// From storage.
    Storage,
    /// Through a uniform binding.
    Uniform,
    /// Through a uniform binding, a lane at a time, and broadcast.
    Spread,
}

impl X {
    /// The slot and its file.
    pub fn slot(self) -> (&'static str, &'static str) {
        let file = match self {
            X::Storage => "slots/x_storage.wgsl",
            X::Uniform => "slots/x_uniform.wgsl",
            X::Spread => "slots/x_spread.wgsl",
        };
        ("x", file)
    }
}

/// Most columns that slot `columns_n` has room for.
pub const MAX_COLUMNS: u32 = 16;

/// What is taken unmeasured on a device, for a row length in f32 and a number of columns.
pub fn choose(caps: &Caps, x_stride: u32, cols: u32) -> Cut {
    let fits = |n: u32| caps.uniform_x(n * x_stride * 4);
    // A chunk goes by eights: wider tiles gain less than a last one that is not full loses.
    let wanted = if cols > MAX_COLUMNS { 8 } else { cols };
    if caps.software {
        // Fewer columns at a time beat activations from storage, which are scalar loads there.
        let columns = (1..=wanted).rev().find(|n| fits(*n));
        return Cut {
            kernel: "matvec_rows",
            columns: columns.unwrap_or(wanted),
            x: match columns {
                None => X::Storage,
                Some(_) if caps.spread() => X::Spread,
                Some(_) => X::Uniform,
            },
            lanes: 8,
            shared: !caps.subgroups,
        };
    }
    let kernel = if cols <= MAX_COLUMNS {
        "matvec"
    } else {
        "matmul"
    };
    Cut {
        kernel,
        columns: wanted,
        x: X::Storage,
        lanes: match kernel {
            "matmul" => 128,
            _ => 64.max(caps.subgroup_max).min(caps.max_lanes),
        },
        shared: !caps.subgroups,
    }
}

/// Rows of a matrix per shard: as many as fit the binding (or texture), whole tiles, and a multiple of
/// four so that pairs of rows and the row multipliers stay whole.
pub fn shard_rows(caps: &Caps, m: &Matrix) -> usize {
    let row = m.row_vec4s() as u64 * 16 + 4;
    let limit = if caps.software {
        // A texture has no binding limit, but its texels must fit the sides.
        (u64::from(caps.max_texture) * u64::from(caps.max_texture) * 16).min(1 << 30)
    } else {
        caps.max_storage
    };
    let whole = if caps.software { TILE_ROWS } else { 4 };
    let rows = ((limit - 4096) / row) as usize / whole * whole;
    assert!(rows > 0, "one row of {} is larger than a binding", m.label);
    rows.min(m.rows)
}

impl Builder<'_> {
    /// `out[c, out_row + r] = epilogue(W[r, :] . x[c, :])` for `cols` columns.
    #[allow(clippy::too_many_arguments)]
    pub fn product(
        &mut self,
        steps: &mut Vec<Step>,
        matrix: &SharedMatrix,
        x: Act,
        out: Act,
        out_row: u32,
        cols: u32,
        (mode, softcap): (Mode, f32),
    ) {
        let shape = Shape {
            ty: matrix.ty.name,
            rows: matrix.rows as u32,
            k: matrix.k as u32,
            cols,
        };
        let cut = self.tuning.cut(self.caps, shape, x.stride);
        assert!(
            x.stride as usize >= matrix.k.next_multiple_of(32),
            "no room for a block at {}",
            matrix.label
        );
        let nb = matrix.k.div_ceil(32) as u32;
        let n_shards = self.shards(matrix).len();
        for s in 0..n_shards {
            let (buf, first, rows) = self.shards(matrix)[s];
            let tile = if cut.kernel == "matmul" {
                cols
            } else {
                cut.columns
            };
            for col in (0..cols).step_by(tile as usize) {
                let params = MatVec {
                    nb,
                    row_vec4s: matrix.row_vec4s() as u32,
                    mult: mult_at(self.caps, matrix, rows),
                    rows: rows as u32,
                    out_row: out_row + first as u32,
                    tex_shift: self.buffers[buf].texture.unwrap_or(0),
                    x_stride: x.stride / 4,
                    out_stride: out.stride,
                    n_cols: tile.min(cols - col),
                    mode: mode as u32,
                    softcap,
                };
                let (shader, grid) = shader(self.caps, matrix.ty.shader, cut, rows as u32);
                let label = match n_shards {
                    1 => matrix.label.clone(),
                    _ => format!("{}#{s}", matrix.label),
                };
                let binds = vec![
                    Bind {
                        name: "w",
                        buf,
                        offset: 0,
                    },
                    Bind {
                        name: "x",
                        buf: x.buf,
                        offset: u64::from(col * x.stride) * 4,
                    },
                    Bind {
                        name: "out",
                        buf: out.buf,
                        offset: u64::from(col * out.stride) * 4,
                    },
                ];
                let mut step = Step::new(label, shader, params, binds, grid);
                step.first_col = col;
                step.shape = Some(shape);
                steps.push(step);
            }
        }
    }

    /// An activation buffer of `n` f32 per column, made on first use.
    pub fn act(&mut self, name: &'static str, n: u32) -> Act {
        let stride = stride(n);
        // A uniform binding always has its full length, so the last column needs that much behind it.
        let tail = if self.caps.uniform_x(0) {
            u64::from(UNIFORM_X)
        } else {
            0
        };
        let bytes = u64::from(stride) * 4 * u64::from(self.sizes.width) + tail;
        Act {
            buf: self.scratch(name, bytes),
            stride,
        }
    }
}

/// The pipeline and grid of a product with `rows` rows, `quant` the shader file of their weight type.
pub fn shader(caps: &Caps, quant: &'static str, cut: Cut, rows: u32) -> (Shader, [Dim; 3]) {
    let columns = match cut.columns {
        1 => "slots/columns_1.wgsl",
        _ => "slots/columns_n.wgsl",
    };
    let mut slots = vec![("quant", quant), caps.weights(), cut.x.slot()];
    let mut overrides = Vec::new();
    // Workgroups along x, the rest along the free dimension.
    let split = |n: u32| (n.min(caps.max_grid), n.div_ceil(caps.max_grid));
    let grid = match cut.kernel {
        "matmul" => {
            let (a, b) = split(rows.div_ceil(64));
            [Dim::Fixed(a), Dim::Tiles(32), Dim::Fixed(b)]
        }
        "matvec_rows" => {
            slots.push(("columns", columns));
            overrides.extend([("WG", cut.lanes), ("COLS", cut.columns)]);
            let (a, b) = split(rows.div_ceil(4 * cut.lanes));
            [Dim::Fixed(a), Dim::Fixed(b), Dim::Fixed(1)]
        }
        _ => {
            slots.extend([("columns", columns), cut.team()]);
            overrides.extend([("WG", cut.lanes), ("COLS", cut.columns)]);
            let teams = match cut.shared {
                true => 1,
                false => (cut.lanes / caps.subgroup_max).max(1),
            };
            let (a, b) = split(rows.div_ceil(4 * teams));
            [Dim::Fixed(a), Dim::Fixed(b), Dim::Fixed(1)]
        }
    };
    (
        Shader {
            kernel: cut.kernel,
            slots,
            overrides,
        },
        grid,
    )
}
