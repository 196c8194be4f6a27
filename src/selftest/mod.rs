//! The case table: every kernel in shapes that do not fit tiles, between guard words and poison, on a device
//! and on its CPU twin. Tests run all of it, `tokstep verify` runs it on a user's device, and before a variant
//! is used on a device for the first time its part of it is run ([`for_shader`]).
//!
//! Rows of a table are plain data (`cases`, `paged_cases`); `make`, `paged`, `pairs` and `sampling` turn
//! a row into a [`Case`], and [`run`](mod@run) compares.

pub mod case;
#[allow(missing_docs)] // the shapes of a row, named as the kernels name them
pub mod cases;
#[allow(missing_docs)]
mod make;
pub mod noise;
mod paged;
#[allow(missing_docs)]
pub mod paged_cases;
#[allow(missing_docs)]
pub mod pairs;
pub mod run;
pub mod sampling;
mod shader;
pub mod weights;

pub use case::Case;
pub use run::{Failure, Ran, run, run_while};
pub use shader::for_shader;

use crate::kernel::Caps;
use noise::Rng;

/// All rows of one table as cases, each with noise of its own.
fn all<T>(rows: impl IntoIterator<Item = T>, make: impl Fn(&T, &mut Rng) -> Case) -> Vec<Case> {
    let numbered = rows.into_iter().enumerate();
    numbered
        .map(|(i, row)| make(&row, &mut Rng(0x9e37_79b9_7f4a_7c15 ^ (i as u64) << 17)))
        .collect()
}

/// The parts of the table, by kernel or family of kernels.
pub const PARTS: [&str; 12] = [
    "get_rows",
    "matvec",
    "matvec_rows",
    "matmul",
    "pairs",
    "norms",
    "glu",
    "take_row",
    "rope_kv",
    "attention",
    "sampling",
    "peak_fma",
];

/// The cases of a part, for what a device can do.
pub fn cases_of(part: &str, caps: &Caps) -> Vec<Case> {
    match part {
        "get_rows" => all(cases::get_rows(), |p, r| make::get_rows(caps, p, r)),
        "norms" => all(cases::norms(), |p, r| make::norm(caps, p, r)),
        "glu" => all(cases::glus(), |p, r| make::glu(caps, p, r)),
        "peak_fma" => all(cases::PEAK_FMAS, |p, r| make::peak_fma(*p, r)),
        "take_row" => all(cases::TAKE_ROWS, |p, r| make::take_row(caps, *p, r)),
        "rope_kv" => all(paged_cases::rope_kvs(), |p, r| paged::rope_kv(caps, p, r)),
        "attention" => all(paged_cases::attentions(), |p, r| {
            paged::attention(caps, p, r)
        }),
        "sampling" => all(sampling::samplings(), |p, r| sampling::case(caps, p, r)),
        "pairs" => all(pairs::pairs(), |p, r| pairs::case(caps, p, r)),
        kernel => {
            let of_kernel = cases::products().into_iter().filter(|p| p.kernel == kernel);
            all(of_kernel, |p, r| make::product(caps, p, r))
        }
    }
}
