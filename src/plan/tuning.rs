//! Which way of cutting a product measurement found best, as plain data: a table from shapes to cuts,
//! and what may stand in it. Who measures is no matter of the plan's.

use std::collections::BTreeMap;

use super::product::{Cut, MAX_COLUMNS, X, choose, part_rows};
use crate::kernel::Caps;

/// What decides how fast a cut is: two products of one shape take the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Weight type.
    pub ty: &'static str,
    /// Rows of the matrix, over all its shards.
    pub rows: u32,
    /// Weights of a row.
    pub k: u32,
    /// Most columns.
    pub cols: u32,
}

impl std::fmt::Display for Shape {
    /// `Q4_K 2048x512 x 8`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{} x {}", self.ty, self.rows, self.k, self.cols)
    }
}

/// The best cut of each shape that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    cuts: BTreeMap<Shape, Cut>,
}

impl Tuning {
    /// Takes this cut for that shape from now on.
    pub fn set(&mut self, shape: Shape, cut: Cut) {
        self.cuts.insert(shape, cut);
    }

    /// Whether the shape was measured.
    pub fn has(&self, shape: Shape) -> bool {
        self.cuts.contains_key(&shape)
    }

    /// All that was measured.
    pub fn iter(&self) -> impl Iterator<Item = (Shape, Cut)> {
        self.cuts.iter().map(|(s, c)| (*s, *c))
    }

    /// How to cut a product whose activations lie `x_stride` f32 from column to column: as measured, or
    /// as is usual where nothing was or where the device cannot do what the table says.
    pub fn cut(&self, caps: &Caps, shape: Shape, x_stride: u32) -> Cut {
        let legal = |cut: &Cut| candidates(caps, x_stride, shape.cols).contains(cut);
        // What was measured may be what is to be avoided.
        let trusted = !caps.avoid.any();
        let measured = self.cuts.get(&shape).copied().filter(legal);
        let measured = measured.filter(|_| trusted);
        measured.unwrap_or_else(|| choose(caps, x_stride, shape.cols))
    }
}

/// Every cut that a device can run of a product with `cols` columns of activations, `x_stride` f32 each;
/// first what is taken unmeasured, then in the order of their prospects. Where weights lie is no choice:
/// textures on software devices, storage on all others.
pub fn candidates(caps: &Caps, x_stride: u32, cols: u32) -> Vec<Cut> {
    let usual = choose(caps, x_stride, cols);
    let mut all = vec![usual];
    let mut offer = |cut: Cut| {
        let fits = match cut.x {
            X::Storage => true,
            X::Uniform => caps.uniform_x(cut.columns * x_stride * 4),
            X::Spread => caps.spread() && caps.uniform_x(cut.columns * x_stride * 4),
        };
        // Decode plans begin and end norms in their products.
        let norms = cut.kernel != "matmul" && part_rows(caps, cut).is_some();
        let fits = fits && (norms || cols > MAX_COLUMNS);
        if fits && cut.lanes <= caps.max_lanes && !all.contains(&cut) {
            all.push(cut);
        }
    };
    let at_a_time = |columns: u32| Cut { columns, ..usual };
    if caps.software {
        // Activations have room for whole tiles of eight columns.
        let room = cols.next_multiple_of(8);
        if MAX_COLUMNS < cols && cols.next_multiple_of(MAX_COLUMNS) <= room {
            offer(at_a_time(MAX_COLUMNS));
        }
        for lanes in [16, 32] {
            offer(Cut { lanes, ..usual });
        }
        for x in [X::Spread, X::Uniform] {
            offer(Cut { x, ..usual });
        }
        if cols > 4 {
            offer(at_a_time(4));
        }
        return all;
    }
    let columns = cols.min(MAX_COLUMNS);
    let team = Cut {
        kernel: "matvec",
        lanes: 64.max(caps.subgroup_max).min(caps.max_lanes),
        ..at_a_time(columns)
    };
    let alone = Cut {
        kernel: "matvec_rows",
        lanes: 32,
        ..at_a_time(columns)
    };
    // Prompts: the kernels are too far apart for lanes to matter first.
    let many = cols > MAX_COLUMNS;
    let lanes: &[u32] = if many { &[] } else { &[32, 64, 128, 256] };
    offer(team);
    for &lanes in lanes
        .iter()
        .filter(|n| caps.subgroups && **n >= caps.subgroup_max)
    {
        let shared = false;
        offer(Cut {
            lanes,
            shared,
            ..team
        });
    }
    for &lanes in lanes {
        let shared = true;
        offer(Cut {
            lanes,
            shared,
            ..team
        });
    }
    offer(Cut {
        x: X::Uniform,
        ..team
    });
    // Not for decoding: its sums of squares lie per subgroup, which no shard or odd subgroup may cut, and
    // which the contest does not compare.
    if many {
        for x in [X::Storage, X::Uniform] {
            offer(Cut { x, ..alone });
        }
        offer(Cut {
            columns: 8,
            ..alone
        });
    }
    if cols > 8 {
        offer(Cut { columns: 8, ..team });
        offer(Cut {
            kernel: "matmul",
            lanes: 128,
            shared: usual.shared,
            ..usual
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(software: bool) -> Caps {
        Caps {
            subgroup_min: if software { 8 } else { 32 },
            subgroup_max: if software { 8 } else { 32 },
            software,
            ..Caps::usual_gpu()
        }
    }

    fn shape(cols: u32) -> Shape {
        Shape {
            ty: "Q4_K",
            rows: 2048,
            k: 512,
            cols,
        }
    }

    #[test]
    fn what_was_measured_is_taken_and_what_was_not_is_as_usual() {
        for software in [false, true] {
            let caps = caps(software);
            for cols in [1, 2, 8, 9, 16, 17, 64, 128] {
                let usual = choose(&caps, 512, cols);
                let all = candidates(&caps, 512, cols);
                assert_eq!(all[0], usual);
                assert!(all.len() >= 4, "{all:?}");
                for cut in &all {
                    assert_eq!(all.iter().filter(|c| *c == cut).count(), 1, "{cut}");
                    let mut tuning = Tuning::default();
                    tuning.set(shape(cols), *cut);
                    assert_eq!(tuning.cut(&caps, shape(cols), 512), *cut);
                    assert_eq!(tuning.cut(&caps, shape(3), 512), choose(&caps, 512, 3));
                }
            }
        }
    }

    #[test]
    fn names_of_candidates_differ() {
        for software in [false, true] {
            for cols in [1, 8, 9, 16, 128] {
                let all = candidates(&caps(software), 512, cols);
                let mut names: Vec<String> = all.iter().map(Cut::to_string).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), all.len(), "{names:?}");
            }
        }
    }

    #[test]
    fn a_verdict_of_another_device_is_not_taken() {
        let (gpu, software) = (caps(false), caps(true));
        let mut tuning = Tuning::default();
        tuning.set(shape(1), choose(&gpu, 512, 1));
        assert_eq!(
            tuning.cut(&software, shape(1), 512),
            choose(&software, 512, 1)
        );
        // Lanes that this device does not have, activations that do not fit a uniform binding.
        let few = Caps {
            max_lanes: 128,
            ..gpu.clone()
        };
        let all = candidates(&few, 512, 1);
        assert!(all.iter().all(|c| c.lanes <= 128));
        let x = candidates(&gpu, 16384 + 64, 1);
        assert!(x.iter().all(|c| c.x == X::Storage));
        let no_subgroups = Caps {
            subgroups: false,
            ..gpu
        };
        assert!(candidates(&no_subgroups, 512, 16).iter().all(|c| c.shared));
    }
}
