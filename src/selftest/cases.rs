//! The case table: every kernel, every weight type, every slot file, in shapes that do not fit
//! tiles. Plain data; `make.rs` turns a row into buffers and steps. Neighbouring rows share a
//! pipeline: the number of pipelines, not of rows, is what a cold run takes long for.

use crate::kernel::params::Mode;
use crate::plan::product::{Ends, X};
use crate::quant;

/// `out = epilogue(W x)`: `matvec`, `matvec_rows`, `matmul` (two matrices: see `pairs.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub kernel: &'static str,
    pub ty: &'static str,
    /// Columns in one pass, 1 to 16.
    pub columns: u32,
    /// Weights as a texture.
    pub texture: bool,
    /// How activations come in (spread: only where the device has subgroups for it).
    pub x: X,
    /// Without subgroups.
    pub shared: bool,
    pub rows: usize,
    pub k: usize,
    pub n_cols: u32,
    pub mode: Mode,
    pub softcap: f32,
    pub out_row: u32,
    /// Rows per shard; 0: all in one.
    pub shard: usize,
    /// Largest grid dimension; beyond it workgroups go to another dimension.
    pub max_grid: u32,
    /// All f16 scales of the file are subnormal.
    pub subnormal: bool,
    /// Columns outside the batch hold NaN instead of numbers.
    pub nan: bool,
    /// The root of a norm before, the start of a norm behind (which adds, whatever the mode).
    pub ends: Ends,
    /// Lanes of a workgroup; 0: as is usual.
    pub lanes: u32,
}

/// A product with nothing special.
pub const PRODUCT: Product = Product {
    kernel: "matvec",
    ty: "Q4_1",
    columns: 1,
    texture: false,
    x: X::Storage,
    shared: false,
    rows: 65,
    k: 256,
    n_cols: 1,
    mode: Mode::Store,
    softcap: 0.0,
    out_row: 0,
    shard: 0,
    max_grid: 65535,
    subnormal: false,
    nan: false,
    ends: Ends {
        scale: false,
        sink: false,
    },
    lanes: 0,
};

/// Row counts that do not fit workgroups.
pub const ROWS: [usize; 7] = [1, 2, 3, 31, 33, 65, 129];
const MODES: [(Mode, f32); 5] = [
    (Mode::Store, 0.0),
    (Mode::Add, 0.0),
    (Mode::Silu, 0.0),
    (Mode::Gelu, 0.0),
    (Mode::Store, 30.0),
];

/// Row lengths a type allows.
pub fn lengths(ty: &str) -> &'static [usize] {
    let t = quant::ALL
        .iter()
        .find(|t| t.name == ty)
        .unwrap_or_else(|| panic!("no weight type {ty}"));
    match t.block {
        1 => &[20, 31, 32, 33, 64, 288],
        32 => &[32, 64, 96, 288, 544],
        _ => &[256, 512, 768],
    }
}

/// One pipeline over all numbers of rows, with row lengths, epilogues and columns in turn.
pub fn sweep(all: &mut Vec<Product>, base: Product) {
    let most = if base.kernel == "matmul" {
        40
    } else {
        base.columns
    };
    let start = all.len(); // so that types do not all meet the same combinations
    for (i, rows) in ROWS.into_iter().enumerate() {
        let n = start / 7 + i;
        let (mode, softcap) = MODES[n % 5];
        let gated = matches!(mode, Mode::Silu | Mode::Gelu);
        all.push(Product {
            rows: if gated {
                rows.next_multiple_of(2)
            } else {
                rows
            },
            k: lengths(base.ty)[n % lengths(base.ty).len()],
            n_cols: if i == 6 {
                most
            } else {
                1 + (n as u32 * 5) % most
            },
            mode,
            softcap,
            out_row: match n.is_multiple_of(3) {
                true if base.ends.sink => 32, // whole partial sums
                true => 6,
                false => 0,
            },
            nan: n % 2 == 1,
            ..base
        });
    }
    all.push(Product {
        rows: 4,
        k: 768,
        n_cols: 1,
        subnormal: true,
        ..base
    });
}

pub fn products() -> Vec<Product> {
    let mut all = Vec::new();
    for (i, t) in quant::ALL.iter().enumerate() {
        let columns = [1, 4, 8, 13][i % 4];
        let base = Product {
            ty: t.name,
            columns,
            ..PRODUCT
        };
        sweep(
            &mut all,
            Product {
                shared: i % 2 == 1,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matvec_rows",
                texture: true,
                x: X::Spread,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matmul",
                ..base
            },
        );
    }
    // The slot files that those did not combine.
    for ty in ["Q4_1", "Q6_K"] {
        let base = Product { ty, ..PRODUCT };
        for columns in [1, 2, 4, 8, 16] {
            sweep(
                &mut all,
                Product {
                    columns,
                    shared: columns != 4,
                    ..base
                },
            );
        }
        sweep(
            &mut all,
            Product {
                columns: 8,
                texture: true,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matvec_rows",
                columns: 9,
                texture: true,
                x: X::Spread,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matvec_rows",
                columns: 4,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matvec_rows",
                columns: 3,
                texture: true,
                x: X::Uniform,
                ..base
            },
        );
        sweep(
            &mut all,
            Product {
                kernel: "matmul",
                texture: true,
                ..base
            },
        );
    }
    // Norms before and behind.
    for (kernel, shared) in [("matvec", false), ("matvec", true), ("matvec_rows", false)] {
        for columns in [1, 3, 16] {
            let rows = kernel == "matvec_rows";
            let base = Product {
                kernel,
                shared,
                columns,
                texture: rows,
                x: if rows { X::Spread } else { X::Storage },
                ..PRODUCT
            };
            for (scale, sink) in [(true, false), (false, true)] {
                let ends = Ends { scale, sink };
                sweep(&mut all, Product { ends, ..base });
                all.push(Product {
                    shard: 32,
                    n_cols: columns,
                    rows: 100,
                    ends,
                    ..base
                });
            }
        }
    }
    // Shards, folded grids, and both.
    for (kernel, texture) in [("matvec", false), ("matvec_rows", true), ("matmul", false)] {
        let base = Product {
            kernel,
            texture,
            x: if texture { X::Spread } else { X::Storage },
            columns: 4,
            n_cols: 3,
            ..PRODUCT
        };
        all.push(Product {
            shard: 32,
            out_row: 2,
            ..base
        });
        all.push(Product {
            shard: 32,
            rows: 66,
            mode: Mode::Silu,
            ..base
        });
        all.push(Product {
            max_grid: 2,
            rows: 517,
            k: 32,
            ..base
        });
        all.push(Product {
            max_grid: 3,
            rows: 1030,
            k: 32,
            shard: 516,
            mode: Mode::Add,
            ..base
        });
    }
    // The order of pipelines, so that a device switches seldom.
    all.sort_by_key(|p| (p.kernel, p.ty));
    all
}

/// Embedding rows.
#[derive(Clone, Copy, Debug)]
pub struct GetRows {
    pub ty: &'static str,
    /// The norm behind is begun.
    pub norm: bool,
    pub texture: bool,
    pub k: usize,
    pub scale: f32,
    pub subnormal: bool,
}

pub fn get_rows() -> Vec<GetRows> {
    let mut all = Vec::new();
    for (i, t) in quant::ALL.iter().enumerate() {
        let both = matches!(t.name, "Q4_1" | "Q6_K");
        for texture in [false, true]
            .into_iter()
            .filter(|x| both || *x == (i % 2 == 0))
        {
            for &k in lengths(t.name) {
                all.push(GetRows {
                    norm: (i + all.len()).is_multiple_of(2),
                    ty: t.name,
                    texture,
                    k,
                    scale: 1.0,
                    subnormal: false,
                });
            }
            let k = if t.block == 1 { 1037 } else { 1280 }; // more blocks than lanes
            all.push(GetRows {
                norm: (i + all.len()).is_multiple_of(2),
                ty: t.name,
                texture,
                k,
                scale: 22.627417,
                subnormal: false,
            });
            all.push(GetRows {
                norm: (i + all.len()).is_multiple_of(2),
                ty: t.name,
                texture,
                k: 256,
                scale: 1.0,
                subnormal: true,
            });
        }
    }
    all
}

/// `rms_norm`, `post_norm`.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    pub kernel: &'static str,
    pub n: usize,
    pub cols: u32,
    pub lanes: u32,
    pub shared: bool,
    /// Largest |x|. The squares of 1e-20 are no numbers to a shader, the sum of those of 1e17 is.
    pub size: f32,
}

pub fn norms() -> Vec<Norm> {
    let mut all = Vec::new();
    for kernel in ["rms_norm", "post_norm"] {
        for (lanes, shared) in [(32, false), (64, true), (256, false)] {
            for (n, cols, size) in [
                (1, 1, 1.0),
                (31, 3, 1.0),
                (33, 2, 1e17),
                (576, 2, 1.0),
                (576, 1, 1e-20),
                (1025, 2, 30.0),
            ] {
                all.push(Norm {
                    kernel,
                    n,
                    cols,
                    lanes,
                    shared,
                    size,
                });
            }
        }
    }
    all
}

/// `glu`.
#[derive(Clone, Copy, Debug)]
pub struct Glu {
    pub n: usize,
    pub cols: u32,
    pub mode: Mode,
    /// Largest |x|.
    pub size: f32,
}

pub fn glus() -> Vec<Glu> {
    let mut all = Vec::new();
    for mode in [Mode::Silu, Mode::Gelu] {
        for (n, cols, size) in [
            (1, 1, 1.0),
            (31, 2, 4.0),
            (64, 1, 1.0),
            (65, 3, 100.0),
            (1000, 2, 10.0),
        ] {
            all.push(Glu {
                n,
                cols,
                mode,
                size,
            });
        }
    }
    all
}

/// `take_row`: (elements, columns, the one taken).
pub const TAKE_ROWS: [(usize, u32, u32); 4] = [(1, 1, 0), (31, 3, 0), (64, 3, 2), (577, 5, 3)];

/// `peak_fma`: (lanes, columns of the batch, rounds). The grid has a workgroup of 64 lanes per column.
pub const PEAK_FMAS: [(u32, u32, u32); 4] = [(1, 1, 1), (63, 1, 2), (65, 2, 3), (200, 4, 5)];
