//! Twins of what happens to a hidden state between matrix products: norms, activation, row copy.

use super::{Binds, params};
use crate::kernel::params::{Glu, Mode, Norm, TakeRow};

/// `v * sigmoid(v)`
pub fn silu(v: f64) -> f64 {
    v / (1.0 + (-v).exp())
}

/// GELU in its tanh form.
pub fn gelu(v: f64) -> f64 {
    0.5 * v * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v * v * v)).tanh())
}

/// `1 / sqrt(mean(x^2) + eps)`
pub fn inverse_rms(x: impl ExactSizeIterator<Item = f64>, eps: f32) -> f64 {
    let n = x.len() as f64;
    inverse_root(x.map(|v| v * v).sum::<f64>() / n, eps)
}

/// `1 / sqrt(mean + eps)`, and NaN where a mean of squares is beyond f32: a device knows no more of it.
pub fn inverse_root(mean: f64, eps: f32) -> f64 {
    match (mean as f32).is_finite() {
        true => 1.0 / (mean + eps as f64).sqrt(),
        false => f64::NAN,
    }
}

fn wide(x: &[f32]) -> impl ExactSizeIterator<Item = f64> {
    x.iter().map(|v| *v as f64)
}

/// `out = x * inverse_rms(x) * weight`, column by column.
pub fn rms_norm(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Norm = params(bytes);
    let (x, weight, mut out) = (b.f32("x"), b.f32("weight"), b.f32_mut("out"));
    for c in 0..grid[0] as usize {
        let at = c * p.stride as usize;
        normed(&x[at..][..p.n as usize], &weight, p.eps, &mut out[at..]);
    }
}

fn normed(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let r = inverse_rms(wide(x), eps);
    for (i, v) in wide(x).enumerate() {
        out[i] = (v * r * weight[i] as f64) as f32;
    }
}

/// `h += rms_norm(x) * weight[..n]; out = rms_norm(h) * weight[n..2n]`
pub fn post_norm(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Norm = params(bytes);
    let n = p.n as usize;
    let (x, weight) = (b.f32("x"), b.f32("weight"));
    let (mut h, mut out) = (b.f32_mut("h"), b.f32_mut("out"));
    for c in 0..grid[0] as usize {
        let at = c * p.stride as usize;
        let r = inverse_rms(wide(&x[at..][..n]), p.eps);
        for i in 0..n {
            h[at + i] = (h[at + i] as f64 + x[at + i] as f64 * r * weight[i] as f64) as f32;
        }
        normed(&h[at..][..n], &weight[n..], p.eps, &mut out[at..]);
    }
}

/// `out[c, i] = act(x[c, i]) * x[c, up + i]`
pub fn glu(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Glu = params(bytes);
    let (x, mut out) = (b.f32("x"), b.f32_mut("out"));
    let act = if p.mode == Mode::Silu as u32 {
        silu
    } else {
        gelu
    };
    for c in 0..grid[1] as usize {
        let x = &x[c * p.x_stride as usize..];
        for i in 0..p.n as usize {
            let v = act(x[i] as f64) * x[p.up as usize + i] as f64;
            out[c * p.out_stride as usize + i] = v as f32;
        }
    }
}

/// `out[0, :] = x[c, :]`, c from the batch header.
pub fn take_row(bytes: &[u8], _grid: [u32; 3], b: &mut Binds) {
    let p: TakeRow = params(bytes);
    let (x, cols, mut out) = (b.f32("x"), b.u32("cols"), b.f32_mut("out"));
    let (n, at) = (p.n as usize, (cols[1] * p.stride) as usize);
    out[..n].copy_from_slice(&x[at..at + n]);
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;
    use bytemuck::bytes_of;

    fn floats(d: &Data) -> &[f32] {
        let Data::F32(v) = d else { panic!() };
        v
    }

    fn near(d: &Data, b: &[f32]) {
        let a = floats(d);
        assert!(
            a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6),
            "{a:?} {b:?}"
        );
    }

    #[test]
    fn norms() {
        // mean of squares of (3, 4, 0, 0) is 6.25: the norm divides by 2.5
        let mut store = vec![
            Data::F32(vec![3.0, 4.0, 0.0, 0.0, 9.0]),
            Data::F32(vec![1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 1.0, 1.0]),
            Data::F32(vec![-1.2, 0.0, 0.0, 0.0, 9.0]),
            Data::F32(vec![9.0; 5]),
        ];
        let p = Norm {
            n: 4,
            stride: 5,
            eps: 0.0,
        };
        let list = [("x", 0, 0), ("weight", 1, 0), ("h", 2, 0), ("out", 3, 0)];
        rms_norm(bytes_of(&p), [1, 1, 1], &mut Binds::new(&mut store, &list));
        near(&store[3], &[1.2, 3.2, 0.0, 0.0, 9.0]);
        post_norm(bytes_of(&p), [1, 1, 1], &mut Binds::new(&mut store, &list));
        near(&store[2], &[0.0, 3.2, 0.0, 0.0, 9.0]); // h = (-1.2, 0, 0, 0) + (1.2, 3.2, 0, 0)
        near(&store[3], &[0.0, 2.0, 0.0, 0.0, 9.0]);
    }

    #[test]
    fn activations() {
        assert!((silu(1.0) - 0.731_058_578_63).abs() < 1e-11);
        assert!((gelu(1.0) - 0.841_191_990_6).abs() < 1e-9);
        let mut store = vec![
            Data::F32(vec![1.0, -1.0, 2.0, 3.0]),
            Data::F32(vec![0.0; 2]),
        ];
        let p = Glu {
            n: 2,
            up: 2,
            x_stride: 4,
            out_stride: 2,
            mode: 2,
        };
        glu(
            bytes_of(&p),
            [1, 1, 1],
            &mut Binds::new(&mut store, &[("x", 0, 0), ("out", 1, 0)]),
        );
        near(&store[1], &[1.462_117_2, -0.806_824_3]);
    }

    #[test]
    fn row_copy() {
        let mut store = vec![
            Data::F32(vec![1.0, 2.0, 9.0, 3.0, 4.0, 9.0]),
            Data::U32(vec![2, 1, 0, 0]),
            Data::F32(vec![0.0; 3]),
        ];
        let p = TakeRow { n: 2, stride: 3 };
        let list = [("x", 0, 0), ("cols", 1, 0), ("out", 2, 0)];
        take_row(bytes_of(&p), [1, 1, 1], &mut Binds::new(&mut store, &list));
        near(&store[2], &[3.0, 4.0, 0.0]);
    }
}
