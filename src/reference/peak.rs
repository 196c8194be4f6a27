//! Twin of `peak_fma`, the kernel that times arithmetic.

use super::{Binds, params};
use crate::kernel::params::PeakFma;

/// Three chains of `a = a m + b` per lane, summed; four equal numbers a lane.
pub fn peak_fma(bytes: &[u8], _grid: [u32; 3], b: &mut Binds) {
    let p: PeakFma = params(bytes);
    let (x, mut out) = (b.f32("x"), b.f32_mut("out"));
    let (m, add) = (f64::from(x[0]), f64::from(x[1]));
    for i in 0..p.n as usize {
        let chain = |j: usize| {
            let start = add + (i % 64 + j) as f64 / 64.0;
            (0..8 * p.rounds).fold(start, |a, _| a * m + add)
        };
        let sum = (chain(0) + chain(1) + chain(2)) as f32;
        out[4 * i..4 * i + 4].fill(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;

    #[test]
    fn chains() {
        let mut store = vec![Data::F32(vec![0.5, 2.0, 0.0, 0.0]), Data::F32(vec![9.0; 8])];
        let p = PeakFma { n: 1, rounds: 1 };
        let list = [("x", 0, 0), ("out", 1, 0)];
        let mut binds = Binds::new(&mut store, &list);
        peak_fma(bytemuck::bytes_of(&p), [1, 1, 1], &mut binds);
        drop(binds);
        // a = 4 is where a = a / 2 + 2 stays; what it is off by is halved eight times.
        let want = 12.0 + (3.0 / 64.0 - 6.0) / 256.0;
        let Data::F32(out) = &store[1] else { panic!() };
        assert!((out[0] - want).abs() < 1e-6, "{out:?} {want}");
        assert_eq!((out[3], out[4]), (out[0], 9.0));
    }
}
