//! Matrix products: which of the three kernels, in which tiles, over which shards.

use std::ops::RangeInclusive;

use super::build::{Builder, bind, mult_at};
use super::{Bind, BufId, Dim, Step};
use crate::kernel::choose::UNIFORM_X;
use crate::kernel::params::{MatVec, Mode};
use crate::kernel::{Caps, Shader};
use crate::model::matrix::{SharedMatrix, TILE_ROWS};
use crate::model::{Layer, Matrix};
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
    let wanted = match cols {
        _ if caps.avoid.columns => 1,
        // A chunk goes by eights: wider tiles gain less than a last one that is not full loses.
        n if n > MAX_COLUMNS => 8,
        // Measured: eight and eight columns beat sixteen, whose sums no longer fit the registers, by a sixth.
        n if caps.software && n > 10 => n.div_ceil(2),
        n => n,
    };
    if caps.software && !caps.avoid.matvec_rows {
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
    let kernel = if cols <= MAX_COLUMNS || caps.software || caps.avoid.matmul {
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
            // A team that is a workgroup is the only kind where there are no subgroups: it can be smaller.
            _ if !caps.subgroups => caps.lanes(64.max(caps.subgroup_max)),
            _ => 64.max(caps.subgroup_max).min(caps.max_lanes),
        },
        shared: !caps.subgroups,
    }
}

/// A part of the columns of a product and the batches it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First column.
    pub first: u32,
    /// Columns.
    pub n_cols: u32,
    /// Kernel and variant.
    pub cut: Cut,
    /// See [`Step::live`].
    pub live: RangeInclusive<u32>,
}

/// A product of up to `cols` columns, cut like `cut`, as tiles. `ragged`: many of its batches have few columns only, which
/// get tiles of their own in place of the first one: that is as wide as it is however few they are.
pub fn tiles(caps: &Caps, cut: Cut, x_stride: u32, cols: u32, ragged: bool) -> Vec<Tile> {
    let width = match cut.kernel {
        "matmul" => cols,
        _ => cut.columns,
    };
    let mut all = Vec::new();
    let mut from = 1;
    if ragged && cols > MAX_COLUMNS {
        // A chunk of two to eight on a software device takes the tile of eight there is: each other width is
        // a pipeline more to compile at every load.
        let few: &[u32] = if caps.software { &[1] } else { &[1, 8] };
        for &few in few {
            let cut = choose(caps, x_stride, few);
            if few < width && cut.columns == few {
                all.push(Tile {
                    first: 0,
                    n_cols: few,
                    cut,
                    live: from..=few,
                });
                from = few + 1;
            }
        }
    }
    for first in (0..cols).step_by(width as usize) {
        all.push(Tile {
            first,
            n_cols: width.min(cols - first),
            cut,
            live: if first == 0 { from } else { 1 }..=u32::MAX,
        });
    }
    all
}

/// Rows of a matrix per shard: all, or as many as fit.
pub fn shard_rows(caps: &Caps, m: &Matrix) -> usize {
    let (rows, limit) = fitting_rows(caps, m);
    assert!(
        rows > 0,
        "a row of {} is larger than {limit} bytes",
        m.label
    );
    rows.min(m.rows)
}

/// As many rows of a matrix as fit the binding (or texture), whole tiles, and a multiple of four so
/// that pairs of rows and the row multipliers stay whole; 0: none. And the bytes they must fit.
pub fn fitting_rows(caps: &Caps, m: &Matrix) -> (usize, u64) {
    let row = m.row_vec4s() as u64 * 16 + 4;
    let limit = if caps.software {
        // A texture has no binding limit, but its texels must fit the sides.
        (u64::from(caps.max_texture) * u64::from(caps.max_texture) * 16).min(1 << 30)
    } else {
        caps.max_storage
    };
    let whole = if caps.software { TILE_ROWS } else { 4 };
    let rows = (limit.saturating_sub(4096) / row) as usize / whole * whole;
    (rows, limit)
}

/// A product to be added to a plan: `out[c, out_row + r] = epilogue(W[r, :] . x[c, :])`.
pub struct Product<'m> {
    /// W
    pub matrix: &'m SharedMatrix,
    /// Activations.
    pub x: Act,
    /// `Some(parts)`: x is an RMS norm's but for its root, whose squares lie in as many partial sums.
    pub root: Option<u32>,
    /// Results.
    pub out: Act,
    /// Row of `out` that the first row goes to.
    pub out_row: u32,
    /// What is done with results.
    pub mode: Mode,
    /// 0: none.
    pub softcap: f32,
    /// Another matrix for the same activations, stored from that row on (see `pair.rs`).
    pub second: Option<(u32, &'m SharedMatrix)>,
    /// With [`Mode::Add`]: gain of the RMS norm that follows, which is begun here (name, numbers).
    pub next: Option<(&'m str, &'m [f32])>,
}

impl<'m> Product<'m> {
    /// A product that stores its results.
    pub fn new(matrix: &'m SharedMatrix, x: Act, out: Act) -> Product<'m> {
        Product {
            matrix,
            x,
            root: None,
            out,
            out_row: 0,
            mode: Mode::Store,
            softcap: 0.0,
            second: None,
            next: None,
        }
    }
}

impl Builder<'_> {
    /// Adds the steps of a product for `cols` columns. With `next`: the partial sums per column.
    pub fn product(&mut self, steps: &mut Vec<Step>, p: Product, cols: u32) -> Option<u32> {
        let (matrix, x, out) = (p.matrix, p.x, p.out);
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
        let tiles = tiles(self.caps, cut, x.stride, cols, self.ragged);
        let nb = matrix.k.div_ceil(32) as u32;
        let part_rows = part_rows(self.caps, cut).unwrap_or(0);
        assert!(
            p.next.is_none() || part_rows > 0,
            "teams of no certain size"
        );
        let parts = p
            .next
            .map(|_| (matrix.rows as u32).div_ceil(part_rows.max(1)));
        let counted = p.root.or(parts).unwrap_or(0).div_ceil(4);
        let sums = (p.root.is_some() || p.next.is_some()).then(|| self.sums());
        let next = p.next.map(|(name, gain)| {
            let n = self.model.hyper.n_embd;
            (self.act("hn", n), self.numbers(name, || gain.to_vec()))
        });
        assert!(p.next.is_none() || p.out_row == 0, "partial sums of a part");
        let second = p.second.map(|(row, m)| self.second(row, m));
        let n_shards = self.shards(matrix).len();
        for s in 0..n_shards {
            let (buf, first, rows) = self.shards(matrix)[s];
            for tile in &tiles {
                let col = tile.first;
                let mut params = MatVec {
                    nb,
                    row_vec4s: matrix.row_vec4s() as u32,
                    mult: mult_at(self.caps, matrix, rows),
                    rows: rows as u32,
                    out_row: p.out_row + first as u32,
                    tex_shift: self.buffers[buf].texture.unwrap_or(0),
                    x_stride: x.stride / 4,
                    out_stride: out.stride,
                    n_cols: tile.n_cols,
                    mode: p.mode as u32,
                    softcap: p.softcap,
                    parts: counted,
                    part_rows,
                    norm_n: self.model.hyper.n_embd,
                    eps: self.model.hyper.eps,
                    ..Default::default()
                };
                let ends = Ends {
                    scale: p.root.is_some(),
                    sink: next.is_some(),
                };
                let (mut shader, mut grid) =
                    shader(self.caps, matrix.ty.shader, tile.cut, ends, rows as u32);
                let mut label = match n_shards {
                    1 => matrix.label.clone(),
                    _ => format!("{}#{s}", matrix.label),
                };
                let at = |name, buf, stride: u32| Bind {
                    name,
                    buf,
                    offset: u64::from(col * stride) * 4,
                };
                let parts_stride = 4 * counted.next_multiple_of(16);
                let mut binds = vec![
                    bind("w", buf),
                    at("x", x.buf, x.stride),
                    at("out", out.buf, out.stride),
                ];
                if ends.scale {
                    binds.extend(sums.map(|b| at("sums", b, parts_stride)));
                }
                if let (Some((hn, gain)), Some(sums)) = (next, sums) {
                    binds.push(at("hn", hn.buf, hn.stride));
                    binds.push(bind("gain", gain));
                    binds.push(at("sums_out", sums, parts_stride));
                }
                if let Some(second) = &second {
                    assert!(n_shards == 1 && !ends.sink, "two matrices at {label}");
                    second.params(&mut params);
                    (shader, grid) = second.shader(self.caps, tile.cut, shader, rows as u32);
                    label = second.label(&label);
                    binds.insert(1, bind("w2", second.buf));
                }
                let mut step = Step::new(label, shader, params, binds, grid);
                step.first_col = col;
                step.live = tile.live.clone();
                // What few columns get in place of it is not tuned.
                step.shape = (tile.cut == cut).then_some(shape);
                steps.push(step);
            }
        }
        parts
    }

    /// Whether RMS norms of up to `cols` columns are begun by the product before and ended by the one behind,
    /// instead of being steps: when decoding (prompts have time for steps, and would have more to compile).
    pub fn fuses_norms(&self, cols: u32) -> bool {
        let norms = |l: &Layer| l.post_attention_norm.is_none() && l.post_ffw_norm.is_none();
        self.decoding
            && cols <= MAX_COLUMNS
            && !self.caps.avoid.fused_norms
            && (!self.caps.software || self.caps.spread())
            && self.model.weights.layers.iter().all(norms)
    }

    /// Partial sums of squares of the columns that [`Self::fuses_norms`] allows.
    pub(super) fn sums(&mut self) -> BufId {
        let parts = self.model.hyper.n_embd.div_ceil(4).div_ceil(4);
        // Tiles of columns may reach behind the last one.
        let bytes = u64::from(parts.next_multiple_of(16) * 2 * MAX_COLUMNS) * 16;
        self.scratch("sums", bytes)
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

/// What a product has at its ends beside the plain epilogue (slots `scale` and `sink`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Multiplies by the root of an RMS norm begun elsewhere.
    pub scale: bool,
    /// Begins the RMS norm that follows.
    pub sink: bool,
}

impl Ends {
    fn slots(self) -> [(&'static str, &'static str); 2] {
        let scale = if self.scale {
            "slots/scale_norm.wgsl"
        } else {
            "slots/scale_one.wgsl"
        };
        let sink = if self.sink {
            "slots/sink_norm.wgsl"
        } else {
            "slots/sink_plain.wgsl"
        };
        [("scale", scale), ("sink", sink)]
    }
}

/// Rows whose squares make one partial sum: those of a lane that has whole rows' sums, or of a team. `None`:
/// teams are of no certain size.
pub fn part_rows(caps: &Caps, cut: Cut) -> Option<u32> {
    match cut.kernel {
        "matvec_rows" if cut.shared => Some(4 * cut.lanes),
        "matvec_rows" if caps.subgroup_min == caps.subgroup_max => {
            Some(4 * caps.subgroup_min.min(cut.lanes))
        }
        "matvec_rows" => None,
        _ => Some(4),
    }
}

/// Rows that a workgroup does.
pub(super) fn group(caps: &Caps, cut: Cut) -> u32 {
    match cut.kernel {
        "matmul" => 64,
        "matvec_rows" => 4 * cut.lanes,
        _ if cut.shared => 4,
        _ => 4 * (cut.lanes / caps.subgroup_max).max(1),
    }
}

/// `groups` workgroups along x, the rest along another dimension.
pub(super) fn split(caps: &Caps, groups: u32) -> (Dim, Dim) {
    let (a, b) = (groups.min(caps.max_grid), groups.div_ceil(caps.max_grid));
    (Dim::Fixed(a), Dim::Fixed(b))
}

/// The pipeline and grid of a product with `rows` rows, `quant` the shader file of their weight type.
pub fn shader(
    caps: &Caps,
    quant: &'static str,
    cut: Cut,
    ends: Ends,
    rows: u32,
) -> (Shader, [Dim; 3]) {
    let columns = match cut.columns {
        1 => "slots/columns_1.wgsl",
        _ => "slots/columns_n.wgsl",
    };
    let mut slots = vec![("quant", quant), caps.weights(), cut.x.slot()];
    let mut overrides = Vec::new();
    let (a, b) = split(caps, rows.div_ceil(group(caps, cut)));
    let grid = if cut.kernel == "matmul" {
        [a, Dim::Tiles(32), b]
    } else {
        slots.extend([("columns", columns), cut.team()]);
        slots.extend(ends.slots());
        overrides.extend([("WG", cut.lanes), ("COLS", cut.columns)]);
        [a, b, Dim::Fixed(1)]
    };
    let shader = Shader {
        kernel: cut.kernel,
        slots,
        overrides,
    };
    (shader, grid)
}
