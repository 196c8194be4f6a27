//! Twin of rope_kv: bias, head norm, rotary embedding, and the write into the paged cache.

use super::norm::inverse_rms;
use super::{Binds, column, params};
use crate::kernel::params::RopeKv;
use half::f16;

/// Where K or V of a position lies in the cache, in f16 elements.
pub fn cache_at(page: u32, n_kv: u32, kv: usize, page_len: u32, position: u32, hdp: u32) -> usize {
    let line = (page * n_kv) as usize + kv;
    (line * page_len as usize + (position % page_len) as usize) * hdp as usize
}

/// One head of one column per (x, y) of the grid: n_head q heads, n_kv k heads, n_kv v heads.
pub fn rope_kv(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: RopeKv = params(bytes);
    let (x, cols, pages, rope, aux) = (
        b.f32("x"),
        b.u32("cols"),
        b.u32("pages"),
        b.f32("rope"),
        b.f32("aux"),
    );
    let (mut q, mut kc, mut vc) = (b.f32_mut("q"), b.u32_mut("kc"), b.u32_mut("vc"));
    let (n_head, n_kv, hd, hdp) = (
        p.n_head as usize,
        p.n_kv as usize,
        p.hd as usize,
        p.hdp as usize,
    );
    let n_bias = p.has_bias as usize * (n_head + 2 * n_kv) * hd;
    for c in 0..grid[1] as usize {
        let [_, position, slot, flags] = column(&cols, c);
        for h in 0..grid[0] as usize {
            let at = c * p.x_stride as usize + h * hd;
            let mut v: Vec<f64> = x[at..at + hd].iter().map(|v| *v as f64).collect();
            if p.has_bias != 0 {
                v.iter_mut()
                    .zip(&aux[h * hd..])
                    .for_each(|(v, b)| *v += *b as f64);
            }
            let (is_q, is_v) = (h < n_head, h >= n_head + n_kv);
            if p.has_norm != 0 && !is_v {
                let r = inverse_rms(v.iter().copied(), p.eps);
                let weight = &aux[n_bias + if is_q { 0 } else { hd }..];
                v.iter_mut()
                    .zip(weight)
                    .for_each(|(v, w)| *v *= r * *w as f64);
            }
            if !is_v {
                rotate(&mut v[..p.rot as usize], &rope, position);
            }
            v.resize(hdp, 0.0);
            if is_q {
                let out = &mut q[c * p.q_stride as usize + h * hdp..][..hdp];
                out.iter_mut().zip(&v).for_each(|(o, v)| *o = *v as f32);
            } else if flags & 1 == 1 {
                let page = pages[(slot * p.pages_per_slot + position / p.page_len) as usize];
                let kv = (h - n_head) % n_kv;
                let at = cache_at(page, p.n_kv, kv, p.page_len, position, p.hdp) / 2;
                let cache = if is_v { &mut vc } else { &mut kc };
                for (o, pair) in cache[at..].iter_mut().zip(v.chunks(2)) {
                    let [lo, hi] = [pair[0], pair[1]].map(|v| f16::from_f64(v).to_bits() as u32);
                    *o = lo | hi << 16;
                }
            }
        }
    }
}

/// Turns the pairs (i, i + rot/2) by the position's angles, each the sum of those in two rows of the
/// table: row `position % 256` and row `256 + position / 256`.
fn rotate(v: &mut [f64], rope: &[f32], position: u32) {
    let half = v.len() / 2;
    for i in 0..half {
        let angle = |row: u32| {
            let at = 2 * (row as usize * half + i);
            (rope[at] as f64, rope[at + 1] as f64)
        };
        let (c0, s0) = angle(position % 256);
        let (c1, s1) = angle(256 + position / 256);
        let (c, s) = (c0 * c1 - s0 * s1, s0 * c1 + c0 * s1);
        (v[i], v[i + half]) = (v[i] * c - v[i + half] * s, v[i] * s + v[i + half] * c);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;
    use bytemuck::bytes_of;

    /// A table of one frequency: `per_position` radians a position.
    fn table(per_position: f64) -> Vec<f32> {
        let positions = (0..256).chain((0..4).map(|p| 256 * p));
        let angles = positions.map(|p| (p as f64 * per_position).sin_cos());
        angles.flat_map(|(s, c)| [c as f32, s as f32]).collect()
    }

    #[test]
    fn rotation_by_a_known_angle() {
        // 30 degrees a position: position 3 is a quarter turn, position 259 = 256 + 3 is 7770
        // degrees = 210.
        let rope = table(std::f64::consts::PI / 6.0);
        let mut v = [1.0, 2.0];
        rotate(&mut v, &rope, 3);
        assert!(
            (v[0] + 2.0).abs() < 1e-6 && (v[1] - 1.0).abs() < 1e-6,
            "{v:?}"
        );
        let mut v = [1.0, 0.0];
        rotate(&mut v, &rope, 259);
        assert!(
            (v[0] + 0.75f64.sqrt()).abs() < 1e-4 && (v[1] + 0.5).abs() < 1e-4,
            "{v:?}"
        );
    }

    #[test]
    fn heads_go_where_they_belong() {
        // One q, one k, one v head of 3 (padded to 8), rot 2, bias and norm; page 5 of slot 1.
        let x = vec![1.0, 1.0, 1.0, 3.0, 0.0, 4.0, 7.0, 8.0, 9.0];
        let mut aux = vec![0.0; 9];
        aux[8] = 1.0; // last of v
        aux.extend([1.0, 1.0, 2.0]); // norm of q
        aux.extend([1.0; 3]); // norm of k
        let mut store = vec![
            Data::F32(x),
            Data::U32(vec![1, 0, 0, 0, 42, 3, 1, 1]),
            Data::U32(vec![0, 0, 2, 1]), // slot 1: pages 2, 1
            Data::F32(table(std::f64::consts::PI / 6.0)),
            Data::F32(aux),
            Data::F32(vec![9.0; 8]),
            Data::U32(vec![0; 3 * 2 * 4]),
            Data::U32(vec![0; 3 * 2 * 4]),
        ];
        let p = RopeKv {
            layer_shift: 0,
            n_head: 1,
            n_kv: 1,
            hd: 3,
            hdp: 8,
            rot: 2,
            x_stride: 9,
            q_stride: 8,
            page_len: 2,
            pages_per_slot: 2,
            has_bias: 1,
            has_norm: 1,
            eps: 0.0,
        };
        let names = ["x", "cols", "pages", "rope", "aux", "q", "kc", "vc"];
        let list: Vec<_> = names.iter().enumerate().map(|(i, n)| (*n, i, 0)).collect();
        rope_kv(bytes_of(&p), [3, 1, 1], &mut Binds::new(&mut store, &list));
        let Data::F32(q) = &store[5] else { panic!() };
        let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(near(q, &[-1.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]), "{q:?}");
        // Position 3 is line 1 of page 1: words 12..16.
        let cached = |d: &Data| -> Vec<f32> {
            let Data::U32(w) = d else { panic!() };
            assert!(w[..12].iter().chain(&w[16..]).all(|w| *w == 0));
            let pair = |w: &u32| [f16::from_bits(*w as u16), f16::from_bits((w >> 16) as u16)];
            w[12..16].iter().flat_map(pair).map(f16::to_f32).collect()
        };
        let r = 3.0 / 25f32.sqrt() * 3f32.sqrt(); // 3 / rms(3, 0, 4)
        assert!(near(
            &cached(&store[6]),
            &[0.0, r, r * 4.0 / 3.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        ));
        assert_eq!(cached(&store[7]), [7.0, 8.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
