//! Twins of attention over the paged cache and of the join of its chunks.

use super::rope::cache_at;
use super::{Binds, column, params};
use crate::kernel::params::{Attention, AttnCombine};
use half::f16;
use std::ops::Range;

/// First position that a query at `position` sees; `window` 0 is all.
fn first_seen(position: u32, window: u32) -> u32 {
    if window == 0 {
        0
    } else {
        (position + 1).saturating_sub(window)
    }
}

fn halves(words: &[u32], at: usize, n: usize) -> impl Iterator<Item = f64> {
    words[at / 2..(at + n) / 2]
        .iter()
        .flat_map(|w| [*w as u16, (*w >> 16) as u16])
        .map(|h| f16::from_bits(h).to_f64())
}

/// `part[column, head, chunk] = (max, sum, 0, 0), sum_p exp(s_p - max) v_p` over the positions that
/// a chunk and the column's window share; nothing where there are none. Grid: (blocks of heads,
/// columns, chunks).
pub fn attention(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Attention = params(bytes);
    let (x, kc, vc, cols, pages) = (
        b.f32("x"),
        b.u32("kc"),
        b.u32("vc"),
        b.u32("cols"),
        b.u32("pages"),
    );
    let mut part = b.f32_mut("part");
    let (n_head, hdp) = (p.n_head as usize, p.hdp as usize);
    for y in 0..grid[1] as usize {
        let c = p.col0 as usize + y;
        let [_, position, slot, flags] = column(&cols, c);
        for chunk in 0..grid[2] {
            let first = first_seen(position, p.window).max(chunk * p.chunk);
            let seen: Range<u32> = first..(position + 1).min((chunk + 1) * p.chunk);
            if flags & 1 == 0 || seen.is_empty() {
                continue;
            }
            for h in 0..n_head {
                let kv = h / (p.n_head / p.n_kv) as usize;
                let at = |t: u32| {
                    let page = pages[(slot * p.pages_per_slot + t / p.page_len) as usize];
                    cache_at(page, p.n_kv, kv, p.page_len, t, p.hdp)
                };
                let q = &x[y * 4 * p.q_stride as usize + h * hdp..][..hdp];
                let score = |t| -> f64 {
                    let k = halves(&kc, at(t), hdp);
                    q.iter().zip(k).map(|(q, k)| *q as f64 * k).sum::<f64>() * p.scale as f64
                };
                let scores: Vec<f64> = seen.clone().map(score).collect();
                let top = scores.iter().fold(f64::MIN, |a, b| a.max(*b)) as f32;
                let mut sum = 0.0;
                let mut o = vec![0.0; hdp];
                for (t, s) in seen.clone().zip(&scores) {
                    let e = (s - top as f64).exp();
                    sum += e;
                    o.iter_mut()
                        .zip(halves(&vc, at(t), hdp))
                        .for_each(|(o, v)| *o += e * v);
                }
                let row = (c * n_head + h) * p.n_chunks as usize + chunk as usize;
                let out = &mut part[row * (4 + hdp)..][..4 + hdp];
                out[..4].copy_from_slice(&[top, sum as f32, 0.0, 0.0]);
                out[4..]
                    .iter_mut()
                    .zip(&o)
                    .for_each(|(a, b)| *a = *b as f32);
            }
        }
    }
}

/// Joins the chunks a column's window touches: the softmax over all its positions. Grid: (heads,
/// columns).
pub fn attn_combine(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: AttnCombine = params(bytes);
    let (part, cols, mut out) = (b.f32("part"), b.u32("cols"), b.f32_mut("out"));
    let (hd, step) = (p.hd as usize, 4 + p.hdp as usize);
    for c in 0..grid[1] as usize {
        let [_, position, _, flags] = column(&cols, c);
        if flags & 1 == 0 {
            continue;
        }
        let chunks = first_seen(position, p.window) / p.chunk..position / p.chunk + 1;
        for h in 0..grid[0] as usize {
            let row = |j: u32| {
                let line = (c * p.n_head as usize + h) * p.n_chunks as usize + j as usize;
                &part[line * step..][..step]
            };
            let top = chunks.clone().map(|j| row(j)[0]).fold(f32::MIN, f32::max);
            let weight = |j| (row(j)[0] as f64 - top as f64).exp();
            let sum: f64 = chunks.clone().map(|j| weight(j) * row(j)[1] as f64).sum();
            for d in 0..hd {
                let o: f64 = chunks
                    .clone()
                    .map(|j| weight(j) * row(j)[4 + d] as f64)
                    .sum();
                out[c * p.out_stride as usize + h * hd + d] = (o / sum) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;
    use bytemuck::bytes_of;

    /// Two q heads on one KV head of 2 (padded to 8), `keys` and values of successive positions in
    /// pages of 2, chunks of 2; the query is at the last position. Returns head 0, then head 1.
    fn attend(q: [[f32; 2]; 2], keys: &[[f32; 2]], values: &[[f32; 2]], window: u32) -> Vec<f32> {
        let n = keys.len();
        let n_pages = n.div_ceil(2);
        let pages: Vec<u32> = (0..n_pages as u32).rev().collect();
        let fill = |from: &[[f32; 2]]| {
            let mut words = vec![0; n_pages * 2 * 4];
            for (t, v) in from.iter().enumerate() {
                let [lo, hi] = v.map(|v| f16::from_f32(v).to_bits() as u32);
                words[cache_at(pages[t / 2], 1, 0, 2, t as u32, 8) / 2] = lo | hi << 16;
            }
            words
        };
        let mut x = vec![0.0; 16];
        x[..2].copy_from_slice(&q[0]);
        x[8..10].copy_from_slice(&q[1]);
        let mut store = vec![
            Data::F32(x),
            Data::U32(fill(keys)),
            Data::U32(fill(values)),
            Data::U32(vec![1, 0, 0, 0, 0, n as u32 - 1, 0, 1]),
            Data::U32(pages.clone()),
            Data::F32(vec![f32::NAN; 2 * n_pages * 12]),
            Data::F32(vec![f32::NAN; 4]),
        ];
        let chunks = n_pages as u32;
        let p = Attention {
            layer_shift: 0,
            n_head: 2,
            n_kv: 1,
            hdp: 8,
            q_stride: 4,
            heads: 2,
            blocks: 1,
            scale: 1.0,
            window,
            chunk: 2,
            n_chunks: chunks,
            page_len: 2,
            pages_per_slot: chunks,
            col0: 0,
        };
        let list = [
            ("x", 0, 0),
            ("kc", 1, 0),
            ("vc", 2, 0),
            ("cols", 3, 0),
            ("pages", 4, 0),
            ("part", 5, 0),
        ];
        attention(
            bytes_of(&p),
            [1, 1, chunks],
            &mut Binds::new(&mut store, &list),
        );
        let p = AttnCombine {
            n_head: 2,
            hd: 2,
            hdp: 8,
            window,
            chunk: 2,
            n_chunks: chunks,
            out_stride: 4,
        };
        let list = [("part", 5, 0), ("cols", 3, 0), ("out", 6, 0)];
        attn_combine(bytes_of(&p), [2, 1, 1], &mut Binds::new(&mut store, &list));
        let Data::F32(out) = store.pop().unwrap() else {
            panic!()
        };
        out
    }

    fn near(a: &[f32], b: &[f64]) {
        assert!(
            a.iter().zip(b).all(|(a, b)| (*a as f64 - b).abs() < 1e-6),
            "{a:?} {b:?}"
        );
    }

    #[test]
    fn softmax_of_two() {
        // Head 0 scores (1, 0), head 1 scores (0, 2).
        let out = attend(
            [[1.0, 0.0], [0.0, 2.0]],
            &[[1.0, 0.0], [0.0, 1.0]],
            &[[1.0, 10.0], [3.0, 20.0]],
            0,
        );
        let (a, b) = (1.0 / (1.0 + 1f64.exp()), 1.0 / (1.0 + 2f64.exp()));
        near(
            &out,
            &[
                1.0 + 2.0 * a,
                10.0 + 10.0 * a,
                3.0 - 2.0 * b,
                20.0 - 10.0 * b,
            ],
        );
    }

    #[test]
    fn chunks_and_window() {
        // Equal scores: the mean of what is seen, over three chunks, or the last three positions.
        let values = [[1.0, 0.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0], [5.0, 0.0]];
        let q = [[1.0, 0.0], [1.0, 0.0]];
        near(
            &attend(q, &[[1.0, 0.0]; 5], &values, 0),
            &[3.0, 0.2, 3.0, 0.2],
        );
        near(
            &attend(q, &[[1.0, 0.0]; 5], &values, 3),
            &[4.0, 1.0 / 3.0, 4.0, 1.0 / 3.0],
        );
        // A key that stands out in the middle chunk.
        let keys = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [50.0, 0.0], [0.0, 0.0]];
        near(&attend(q, &keys, &values, 0), &[4.0, 0.0, 4.0, 0.0]);
    }
}
