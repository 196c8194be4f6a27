//! Twins of the sampling kernels: repeat penalty, summary of the logits, and the choice of a token.

use super::{Binds, column, params};
use crate::kernel::params::{LogitsPart, Penalize, Sample, Slot};
use std::collections::BTreeSet;

/// No slot, or no token.
const NONE: u32 = u32::MAX;
/// What stands for the largest of no logits.
const LOW: f32 = -3.4e38;

fn slot(slots: &[u32], s: u32) -> Slot {
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(&slots[16 * s as usize..][..16]))
}

/// Slot of logits row `i` if it has one and that is active.
fn active_slot(rows: &[u32], cols: &[u32], i: usize) -> Option<u32> {
    let s = rows[i];
    (s != NONE && column(cols, s as usize)[3] & 1 == 1).then_some(s)
}

/// `l = l > 0 ? l / penalty : l * penalty`, once for each token among the last `repeat_last_n`.
pub fn penalize(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Penalize = params(bytes);
    let (slots, cols, history, rows) = (
        b.u32("slots"),
        b.u32("cols"),
        b.u32("history"),
        b.u32("rows"),
    );
    let mut logits = b.f32_mut("logits");
    for i in 0..grid[0] as usize {
        let Some(s) = active_slot(&rows, &cols, i) else {
            continue;
        };
        let slot = slot(&slots, s);
        let line = &history[(s * p.hist_stride) as usize..];
        let n = slot.hist_len.min(p.hist_stride);
        let recent = &line[n.saturating_sub(slot.repeat_last_n) as usize..n as usize];
        for t in recent
            .iter()
            .filter(|t| **t < p.n_vocab)
            .collect::<BTreeSet<_>>()
        {
            let l = &mut logits[(i as u32 * p.stride + t) as usize];
            *l = if *l > 0.0 {
                *l / slot.repeat_penalty
            } else {
                *l * slot.repeat_penalty
            };
        }
    }
}

/// Bits of (largest, its first index, sum of exp(l - largest), how many are NaN or +inf) of each
/// span of each column; (LOW, first, 0, bad) where nothing is finite. Grid: (parts, columns).
pub fn logits_part(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: LogitsPart = params(bytes);
    let (logits, mut part) = (b.f32("logits"), b.u32_mut("part"));
    for c in 0..grid[1] {
        for j in 0..grid[0] {
            let span = j * p.span..p.n_vocab.min((j + 1) * p.span);
            let all = span
                .clone()
                .map(|i| (logits[(c * p.stride + i) as usize], i));
            let good = all.clone().filter(|(l, _)| *l < f32::INFINITY);
            let bad = all.clone().count() - good.clone().count();
            let first = (LOW, span.start);
            let top = good
                .clone()
                .fold(first, |a, b| if b.0 > a.0 { b } else { a });
            let sum: f64 = good.map(|(l, _)| (l as f64 - top.0 as f64).exp()).sum();
            let words = [top.0.to_bits(), top.1, (sum as f32).to_bits(), bad as u32];
            part[4 * (c * p.n_parts + j) as usize..][..4].copy_from_slice(&words);
        }
    }
}

/// Chooses a token for each logits row and advances its slot. Looks at the logits themselves, not
/// at `part`.
pub fn sample(bytes: &[u8], grid: [u32; 3], b: &mut Binds) {
    let p: Sample = params(bytes);
    let (logits, rows) = (b.f32("logits"), b.u32("rows"));
    let (mut slots, mut cols) = (b.u32_mut("slots"), b.u32_mut("cols"));
    let (mut history, mut ring) = (b.u32_mut("history"), b.u32_mut("ring"));
    for i in 0..grid[0] as usize {
        let Some(s) = active_slot(&rows, &cols, i) else {
            continue;
        };
        let mut slot = slot(&slots, s);
        let line = &logits[i * p.stride as usize..][..p.n_vocab as usize];
        let id = choose(line, &slot);
        let col = &mut cols[4 * (s as usize + 1)..][..4];
        ring[(s * p.ring_len + slot.count % p.ring_len) as usize] = id.unwrap_or(NONE);
        slot.count += 1;
        if let Some(id) = id {
            if slot.hist_len < p.hist_stride {
                history[(s * p.hist_stride + slot.hist_len) as usize] = id;
            }
            slot.hist_len += 1;
            col.copy_from_slice(&[id, col[1] + 1, s, col[3]]);
        } else {
            col[3] &= !1;
        }
        let words = bytemuck::bytes_of(&slot);
        slots[16 * s as usize..][..16].copy_from_slice(bytemuck::cast_slice(words));
    }
}

/// The next token: none if a logit is NaN or +inf or none is finite, else the largest, or a draw
/// from what top_k, top_p and min_p leave, in this order. Logits equal to the least one left all
/// stay.
fn choose(logits: &[f32], slot: &Slot) -> Option<u32> {
    if logits.iter().any(|l| l.is_nan() || *l == f32::INFINITY) {
        return None;
    }
    let finite = logits.iter().zip(0..).filter(|(l, _)| l.is_finite());
    let mut left: Vec<(f64, u32)> = finite.map(|(l, i)| (*l as f64 + 0.0, i)).collect(); // no -0
    left.sort_by(|a, b| b.0.total_cmp(&a.0)); // stable: the lowest index first on a tie
    let &(top, best) = left.first().filter(|(l, _)| *l > LOW as f64)?;
    if slot.temp < 1e-6 || slot.top_k == 1 {
        return Some(best);
    }
    let mass = |l: f64| (l - top).exp();
    if slot.top_k > 0 && (slot.top_k as usize) < left.len() {
        let least = left[slot.top_k as usize - 1].0;
        left.retain(|(l, _)| *l >= least);
    }
    if slot.top_p < 1.0 {
        let whole: f64 = left.iter().map(|(l, _)| mass(*l)).sum();
        let mut sum = 0.0;
        let reached = |(l, _): &&(f64, u32)| {
            sum += mass(*l);
            sum >= slot.top_p as f64 * whole
        };
        let least = left.iter().find(reached).map_or(f64::MIN, |(l, _)| *l);
        left.retain(|(l, _)| *l >= least);
    }
    if slot.min_p > 0.0 {
        left.retain(|(l, _)| mass(*l) >= (slot.min_p as f64).min(1.0));
    }
    let score = |(l, i): &(f64, u32)| {
        let h = pcg4d([slot.seed_lo, slot.seed_hi, slot.count, *i])[0];
        (l - top) / slot.temp as f64 + gumbel(h)
    };
    let mut win = (f64::NEG_INFINITY, NONE);
    for t in &left {
        let s = score(t);
        if s > win.0 || (s == win.0 && t.1 < win.1) {
            win = (s, t.1);
        }
    }
    Some(win.1)
}

/// pcg4d of Jarzynski and Olano, "Hash Functions for GPU Rendering" (JCGT 9(3), 2020).
fn pcg4d(a: [u32; 4]) -> [u32; 4] {
    let mut v = a.map(|w| w.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let mix = |v: &mut [u32; 4]| {
        for (i, j, k) in [(0, 1, 3), (1, 2, 0), (2, 0, 1), (3, 1, 2)] {
            v[i] = v[i].wrapping_add(v[j].wrapping_mul(v[k]));
        }
    };
    mix(&mut v);
    v = v.map(|w| w ^ (w >> 16));
    mix(&mut v);
    v
}

/// `-ln(-ln(1 - u))` with u = (h + 1/2) / 2^32 as an f32 takes it.
fn gumbel(h: u32) -> f64 {
    let u = ((h as f32 + 0.5) * 2f32.powi(-32)).min(0.999_999_94) as f64;
    -(-(-u).ln_1p()).ln()
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;
    use bytemuck::bytes_of;
    use serde_json::Value;

    const STRIDE: usize = 16;
    const HIST: u32 = 8;
    const RING: u32 = 4;

    /// One slot, one logits row, the buffers of all three kernels in the order of `list`.
    fn store(logits: &[f32], slot: Slot, seen: &[u32]) -> Vec<Data> {
        let mut history = seen.to_vec();
        history.resize(HIST as usize, 0);
        let mut line = logits.to_vec();
        line.resize(STRIDE, f32::NAN); // beyond n_vocab
        let slot = Slot {
            hist_len: seen.len() as u32,
            ..slot
        };
        vec![
            Data::F32(line),
            Data::U32(vec![0]),
            Data::U32(bytemuck::cast_slice(bytes_of(&slot)).to_vec()),
            Data::U32(vec![1, 0, 0, 0, 0, 10, 0, 1]),
            Data::U32(history),
            Data::U32(vec![7; RING as usize]),
            Data::U32(vec![0; 4]),
        ]
    }

    /// Penalty and choice, as one decode step does them. Leaves the logits penalised.
    fn step(store: &mut [Data], n_vocab: usize) {
        let names = ["logits", "rows", "slots", "cols", "history", "ring", "part"];
        let list: Vec<_> = names.iter().enumerate().map(|(i, n)| (*n, i, 0)).collect();
        let (n_vocab, stride) = (n_vocab as u32, STRIDE as u32);
        let mut b = Binds::new(store, &list);
        let p = Penalize {
            n_vocab,
            stride,
            hist_stride: HIST,
        };
        penalize(bytes_of(&p), [1, 1, 1], &mut b);
        let p = LogitsPart {
            n_vocab,
            stride,
            n_parts: 1,
            span: n_vocab,
        };
        logits_part(bytes_of(&p), [1, 1, 1], &mut b);
        let p = Sample {
            n_vocab,
            stride,
            n_parts: 1,
            hist_stride: HIST,
            ring_len: RING,
        };
        sample(bytes_of(&p), [1, 1, 1], &mut b);
    }

    fn words(d: &Data) -> &[u32] {
        let Data::U32(w) = d else { panic!() };
        w
    }

    fn off() -> Slot {
        Slot {
            temp: 1.0,
            top_p: 1.0,
            repeat_penalty: 1.0,
            seed_lo: 1,
            seed_hi: 2,
            ..Default::default()
        }
    }

    fn settings(case: &Value) -> Option<Slot> {
        let mut slot = off();
        for (key, v) in case["settings"].as_object()? {
            let x = v.as_f64().unwrap_or(f64::NAN) as f32;
            match key.as_str() {
                "temperature" => slot.temp = x,
                "top_k" => slot.top_k = x as u32,
                "top_p" => slot.top_p = x,
                "min_p" => slot.min_p = x,
                "repeat_penalty" => (slot.repeat_penalty, slot.repeat_last_n) = (x, 64),
                "presence_penalty" | "frequency_penalty" | "logit_bias" => return None,
                _ => panic!("{key}"),
            }
        }
        Some(slot)
    }

    /// Distributions from tests/cases/sampling: 20000 draws a case, each within 4 sigma.
    #[test]
    fn distributions() {
        const DRAWS: u32 = 20_000;
        let cases: Value =
            serde_json::from_str(include_str!("../../tests/cases/sampling/sampling.json")).unwrap();
        let mut done = 0;
        for case in cases.as_array().unwrap() {
            let Some(slot) = settings(case) else { continue };
            let name = &case["case"];
            let logit = |l: &Value| match l {
                Value::Null => f32::NEG_INFINITY,
                Value::String(_) => f32::NAN,
                l => l.as_f64().unwrap() as f32,
            };
            let logits: Vec<f32> = case["logits"]
                .as_array()
                .unwrap()
                .iter()
                .map(logit)
                .collect();
            let seen: Vec<u32> = serde_json::from_value(case["seen"].clone()).unwrap();
            let mut counts = vec![0u32; logits.len()];
            let mut none = 0;
            let mut store = store(&logits, slot, &seen);
            step(&mut store, logits.len());
            // One step as the kernels do it; the other draws differ only in `count`.
            let Data::F32(penalised) = &store[0] else {
                panic!()
            };
            for count in 0..DRAWS {
                match choose(&penalised[..logits.len()], &Slot { count, ..slot }) {
                    Some(id) => counts[id as usize] += 1,
                    None => none += 1,
                }
            }
            done += 1;
            let expect = &case["expect"];
            if expect["error_or_any"] == true {
                let bad =
                    logits.iter().any(|l| l.is_nan()) || logits.iter().all(|l| l.is_infinite());
                assert_eq!(none, if bad { DRAWS } else { 0 }, "{name}");
                continue;
            }
            assert_eq!(none, 0, "{name}");
            for (id, n) in counts.iter().enumerate() {
                let p = expect["probs"][id.to_string()].as_f64().unwrap_or(0.0);
                let mean = p * DRAWS as f64;
                let sigma = (mean * (1.0 - p)).sqrt();
                let slack = if p == 0.0 { 0.0 } else { 4.0 * sigma + 1.0 };
                assert!(
                    (*n as f64 - mean).abs() <= slack,
                    "{name}: {id} {n} times, not {mean}"
                );
            }
        }
        assert_eq!(done, 26);
    }

    #[test]
    fn a_step_advances_its_slot() {
        let mut store = store(&[0.0, 3.0, 3.0], Slot { temp: 0.0, ..off() }, &[5, 6]);
        for _ in 0..2 {
            step(&mut store, 3);
        }
        let slot = slot(words(&store[2]), 0);
        assert_eq!((slot.count, slot.hist_len), (2, 4));
        assert_eq!(words(&store[3]), [1, 0, 0, 0, 1, 12, 0, 1]);
        assert_eq!(words(&store[4])[..5], [5, 6, 1, 1, 0]);
        assert_eq!(words(&store[5]), [1, 1, 7, 7]);
    }

    #[test]
    fn a_bad_logit_ends_the_slot() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut store = store(&[0.0, bad, 3.0], off(), &[5]);
            for _ in 0..2 {
                step(&mut store, 3);
            }
            assert_eq!(words(&store[3]), [1, 0, 0, 0, 0, 10, 0, 0]);
            assert_eq!(words(&store[5]), [NONE, 7, 7, 7]);
            assert_eq!(slot(words(&store[2]), 0).hist_len, 1);
            assert_eq!(words(&store[6])[3], 1);
        }
    }

    #[test]
    fn no_slot_or_an_inactive_one_is_left_alone() {
        for (row, flags) in [(NONE, 1), (0, 0)] {
            let mut store = store(
                &[0.0, 1.0],
                Slot {
                    repeat_penalty: 2.0,
                    repeat_last_n: 9,
                    ..off()
                },
                &[1],
            );
            store[1] = Data::U32(vec![row]);
            store[3] = Data::U32(vec![1, 0, 0, 0, 0, 10, 0, flags]);
            step(&mut store, 2);
            assert_eq!(words(&store[5]), [7; 4]);
            assert_eq!(words(&store[3])[4..], [0, 10, 0, flags]);
            let Data::F32(logits) = &store[0] else {
                panic!()
            };
            assert_eq!(logits[1], 1.0);
        }
    }

    #[test]
    fn penalty_looks_back_so_far() {
        let slot = Slot {
            repeat_penalty: 2.0,
            repeat_last_n: 2,
            temp: 0.0,
            ..off()
        };
        let mut store = store(&[4.0, 4.0, -4.0], slot, &[0, 1, 2]);
        step(&mut store, 3);
        let Data::F32(logits) = &store[0] else {
            panic!()
        };
        assert_eq!(logits[..3], [4.0, 2.0, -8.0]);
    }

    /// The tail of the noise decides how often rare tokens come.
    #[test]
    fn hash_is_flat() {
        let mut bins = [0u32; 256];
        for count in 0..1000 {
            for token in 0..256 {
                bins[(pcg4d([7, 0, count, token])[0] >> 24) as usize] += 1;
            }
        }
        let chi2: f64 = bins
            .iter()
            .map(|n| (*n as f64 - 1000.0).powi(2) / 1000.0)
            .sum();
        assert!((150.0..380.0).contains(&chi2), "{chi2}"); // 255 +- 22.6
    }
}
