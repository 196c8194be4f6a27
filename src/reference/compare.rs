//! The one judge of whether a device's result equals a twin's. Used by `--verify` and by the kernel
//! tests; its own tests plant errors that it must find.

use half::f16;

/// How the words of a binding are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// f32
    F32,
    /// Pairs of f16.
    F16,
    /// Whole numbers, equal or not.
    U32,
    /// Per four words: f32, whole number, f32, whole number (`logits_part`).
    Part,
}

/// What a kernel's output binding holds.
pub fn kind(kernel: &str, binding: &str) -> Kind {
    match (kernel, binding) {
        ("logits_part", "part") => Kind::Part,
        (_, "kc" | "vc") => Kind::F16,
        (_, "slots" | "cols" | "history" | "ring") => Kind::U32,
        _ => Kind::F32,
    }
}

/// The largest difference that rounding explains, as a part of the value and of the largest value of
/// the whole buffer: sums of a few thousand f32 products, exp and tanh of a driver.
const REL: f64 = 2e-4;
const OF_MAX: f64 = 2e-5;

/// One word that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the element (f16: of the half).
    pub index: usize,
    /// The device's value.
    pub got: f64,
    /// The twin's value.
    pub want: f64,
    /// Elements that differ.
    pub count: usize,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference {
            index,
            got,
            want,
            count,
        } = self;
        write!(
            f,
            "element {index} is {got}, should be {want} ({count} differ)"
        )
    }
}

/// The first difference between a device's words and a twin's, if any.
pub fn compare(kind: Kind, got: &[u32], want: &[u32]) -> Option<Difference> {
    assert_eq!(got.len(), want.len(), "buffers of different length");
    let f = |w: &u32| f64::from(f32::from_bits(*w));
    match kind {
        Kind::F32 => floats(got.iter().map(f), want.iter().map(f), REL, OF_MAX),
        Kind::F16 => {
            let halves =
                |w: &u32| [*w as u16, (*w >> 16) as u16].map(|h| f16::from_bits(h).to_f64());
            // A unit in the last place either way: the f32 before it may be rounded to either side.
            let (a, b) = (got.iter().flat_map(halves), want.iter().flat_map(halves));
            floats(a, b, 1.5 / 1024.0, 1e-6)
        }
        Kind::U32 => differences(
            got.iter()
                .zip(want)
                .map(|(a, b)| (f64::from(*a), f64::from(*b), a == b)),
        ),
        Kind::Part => {
            let each = got.iter().zip(want).enumerate();
            differences(each.map(|(i, (a, b))| match i % 2 {
                0 => (f(a), f(b), close(f(a), f(b), REL, 1e-30)),
                _ => (f64::from(*a), f64::from(*b), a == b),
            }))
        }
    }
}

fn close(a: f64, b: f64, rel: f64, abs: f64) -> bool {
    // Poison and infinities must be where the twin has them.
    let near = || a.is_finite() && b.is_finite() && (a - b).abs() <= rel * b.abs() + abs;
    (a.is_nan() && b.is_nan()) || a == b || near()
}

fn floats(
    got: impl Iterator<Item = f64> + Clone,
    want: impl Iterator<Item = f64> + Clone,
    rel: f64,
    of_max: f64,
) -> Option<Difference> {
    let max = want
        .clone()
        .filter(|v| v.is_finite())
        .fold(0.0, |m, v| f64::max(m, v.abs()));
    differences(
        got.zip(want)
            .map(|(a, b)| (a, b, close(a, b, rel, of_max * max))),
    )
}

fn differences(all: impl Iterator<Item = (f64, f64, bool)>) -> Option<Difference> {
    let mut first: Option<Difference> = None;
    for (index, (got, want, ok)) in all.enumerate() {
        if !ok {
            first
                .get_or_insert(Difference {
                    index,
                    got,
                    want,
                    count: 0,
                })
                .count += 1;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(v: &[f32]) -> Vec<u32> {
        v.iter().map(|f| f.to_bits()).collect()
    }

    #[test]
    fn planted_errors_are_found() {
        let want = bits(&[1.0, -2.0, 0.0, 1000.0, f32::NAN]);
        let mut got = want.clone();
        assert_eq!(compare(Kind::F32, &got, &want), None);
        got[1] = (-2.03f32).to_bits();
        assert_eq!(
            compare(Kind::F32, &got, &want).map(|d| (d.index, d.count)),
            Some((1, 1))
        );
        got[1] = (-2.00001f32).to_bits();
        assert_eq!(compare(Kind::F32, &got, &want), None);
        got[4] = 0;
        assert_eq!(compare(Kind::F32, &got, &want).map(|d| d.index), Some(4));
    }

    #[test]
    fn nan_or_infinity_for_a_number_is_an_error() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(compare(Kind::F32, &bits(&[1.0, bad]), &bits(&[1.0, 2.0])).is_some());
            assert!(compare(Kind::F32, &bits(&[1.0, 2.0]), &bits(&[1.0, bad])).is_some());
        }
    }

    #[test]
    fn halves_and_whole_numbers() {
        let pair = |a: f32, b: f32| {
            u32::from(f16::from_f32(a).to_bits()) | u32::from(f16::from_f32(b).to_bits()) << 16
        };
        assert_eq!(
            compare(Kind::F16, &[pair(1.0, 2.0)], &[pair(1.0005, 2.0)]),
            None
        );
        assert_eq!(
            compare(Kind::F16, &[pair(1.0, 2.0)], &[pair(1.0, 2.01)]).map(|d| d.index),
            Some(1)
        );
        assert_eq!(
            compare(Kind::U32, &[7, 8], &[7, 9]).map(|d| d.index),
            Some(1)
        );
        let part = [1f32.to_bits(), 5, 2f32.to_bits(), 0];
        assert_eq!(compare(Kind::Part, &part, &part), None);
        assert!(compare(Kind::Part, &[part[0], 6, part[2], 0], &part).is_some());
    }
}
