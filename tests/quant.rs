//! Weight types: decode against goldens, repacked rows read back by the documented layout, shader
//! slots validated. Loops over the table; a new type adds its layout to `unpack`.

#[path = "common/blocks.rs"]
mod blocks;

use blocks::floats;
use half::f16;
use tokstep::quant::{self, QuantType};

fn golden(t: &QuantType) -> (Vec<u8>, Vec<f32>) {
    const WEIGHTS: usize = 1024; // see cases/quant/make.py
    let path = format!(
        "{}/tests/cases/quant/{}.bin",
        env!("CARGO_MANIFEST_DIR"),
        t.name.to_lowercase()
    );
    let mut raw = std::fs::read(path).unwrap();
    let values = raw.split_off(t.row_bytes(WEIGHTS));
    let values: Vec<f32> = values
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(values.len(), WEIGHTS);
    (raw, values)
}

fn decode(t: &QuantType, raw: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::NAN; raw.len() / t.bytes * t.block];
    (t.decode)(raw, &mut out);
    out
}

#[test]
fn decode_equals_the_golden_bit_for_bit() {
    for t in quant::ALL {
        let (raw, wanted) = golden(t);
        for (i, (w, g)) in decode(t, &raw).iter().zip(&wanted).enumerate() {
            assert_eq!(
                w.to_bits(),
                g.to_bits(),
                "{} weight {i}: {w} for {g}",
                t.name
            );
        }
    }
}

#[test]
fn the_table_agrees_with_itself() {
    for t in quant::ALL {
        assert!(std::ptr::eq(quant::by_id(t.ggml.id).unwrap(), t));
        assert_eq!(
            (t.block as u64, t.bytes as u64),
            (t.ggml.block, t.ggml.bytes)
        );
    }
    assert!(
        quant::by_id(16).is_none(),
        "IQ2_XXS is known to ggml, not to us"
    );
}

/// A row record read by its documented layout, independently of the code that wrote it.
struct Record<'a>(&'a [u32]);

impl<'a> Record<'a> {
    fn section(&mut self, vec4s: usize) -> &'a [u32] {
        let (section, rest) = self.0.split_at(4 * vec4s);
        self.0 = rest;
        section
    }
}

/// Field `i` of consecutive `width`-bit fields.
fn field(section: &[u32], i: usize, width: usize) -> u32 {
    let bit = i * width;
    section[bit / 32] >> (bit % 32) & (u32::MAX >> (32 - width))
}

fn half_at(section: &[u32], i: usize) -> f32 {
    let h = f16::from_bits(field(section, i, 16) as u16);
    assert!(
        h.is_normal() || h == f16::ZERO || !h.is_finite(),
        "subnormal {h:e} in a record"
    );
    h.to_f32()
}

fn i8_at(section: &[u32], i: usize) -> f32 {
    f32::from(field(section, i, 8) as u8 as i8)
}

/// All weights of a record, the padding to whole blocks included, before the multiplier.
fn unpack(name: &str, record: &[u32], k: usize) -> Vec<f32> {
    let (nb, ng) = (k.div_ceil(32), k.div_ceil(256));
    let mut r = Record(record);
    let mut s = |n: usize| r.section(n);
    let w: Box<dyn Fn(usize) -> f32> = match name {
        "F32" => {
            let w = s(8 * nb);
            Box::new(|i| f32::from_bits(w[i]))
        }
        "F16" => {
            let w = s(4 * nb);
            Box::new(|i| half_at(w, i))
        }
        "BF16" => {
            let w = s(4 * nb);
            Box::new(|i| f32::from_bits(field(w, i, 16) << 16))
        }
        "Q8_0" => {
            let (q, d) = (s(2 * nb), s(nb.div_ceil(8)));
            Box::new(|i| half_at(d, i / 32) * i8_at(q, i))
        }
        "Q4_0" => {
            let (q, d) = (s(nb), s(nb.div_ceil(8)));
            Box::new(|i| half_at(d, i / 32) * (field(q, i, 4) as f32 - 8.0))
        }
        "Q4_1" => {
            let (q, dm) = (s(nb), s(nb.div_ceil(4)));
            Box::new(|i| {
                half_at(dm, i / 32 * 2) * field(q, i, 4) as f32 + half_at(dm, i / 32 * 2 + 1)
            })
        }
        "Q5_0" => {
            let (q, h, d) = (s(nb), s(nb.div_ceil(4)), s(nb.div_ceil(8)));
            let q = move |i| field(q, i, 4) + 16 * field(h, i, 1);
            Box::new(move |i| half_at(d, i / 32) * (q(i) as f32 - 16.0))
        }
        "Q5_1" => {
            let (q, h, dm) = (s(nb), s(nb.div_ceil(4)), s(nb.div_ceil(4)));
            let q = move |i| field(q, i, 4) + 16 * field(h, i, 1);
            Box::new(move |i| half_at(dm, i / 32 * 2) * q(i) as f32 + half_at(dm, i / 32 * 2 + 1))
        }
        "Q4_K" | "Q5_K" => {
            let q = s(nb);
            let h = if name == "Q5_K" {
                s(nb.div_ceil(4))
            } else {
                &[]
            };
            let g = s(ng);
            Box::new(move |i| {
                let (g, j) = (&g[i / 256 * 4..], i / 32 % 8);
                let scale = field(&g[1..], j, 4) | field(&g[3..], j, 2) << 4;
                let min = field(&g[2..], j, 4) | field(&g[3..], j + 8, 2) << 4;
                let q = field(q, i, 4) + if h.is_empty() { 0 } else { 16 * field(h, i, 1) };
                half_at(g, 0) * scale as f32 * q as f32 - half_at(g, 1) * min as f32
            })
        }
        "Q6_K" => {
            let (low, high, sc, d) = (s(nb), s(nb.div_ceil(2)), s(ng), s(ng.div_ceil(4)));
            Box::new(|i| {
                let q = (field(low, i, 4) | field(high, i, 2) << 4) as f32 - 32.0;
                f32::from_bits(d[i / 256]) * i8_at(sc, i / 16) * q
            })
        }
        "Q3_K" => {
            let (low, high, g) = (s(nb.div_ceil(2)), s(nb.div_ceil(4)), s(ng));
            Box::new(|i| {
                let (g, j) = (&g[i / 256 * 4..], i / 16 % 16);
                let scale = (field(&g[1..], j, 4) | field(&g[3..], j, 2) << 4) as f32 - 32.0;
                let q = (field(low, i, 2) | field(high, i, 1) << 2) as f32 - 4.0;
                f32::from_bits(g[0]) * scale * q
            })
        }
        "Q2_K" => {
            let (q, sc, d) = (s(nb.div_ceil(2)), s(ng), s(ng.div_ceil(4)));
            Box::new(|i| {
                let (g, sc) = (i / 256, field(sc, i / 16, 8));
                let scale = half_at(d, 2 * g) * (sc & 15) as f32;
                scale * field(q, i, 2) as f32 - half_at(d, 2 * g + 1) * (sc >> 4) as f32
            })
        }
        _ => panic!("{name}: write its record layout here"),
    };
    assert!(r.0.is_empty(), "{name}: record longer than its sections");
    (0..32 * nb).map(w).collect()
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
}

/// A row of random blocks whose f16 numbers come from `half`.
fn random_row(t: &QuantType, k: usize, half: &mut dyn FnMut(u32) -> u16) -> Vec<u8> {
    let mut rng = Rng(k as u64 + (u64::from(t.ggml.id) << 20));
    let mut row: Vec<u8> = (0..t.row_bytes(k)).map(|_| rng.next() as u8).collect();
    let (halves, tops) = floats(t.name);
    for b in row.chunks_exact_mut(t.bytes) {
        for &at in halves {
            b[at..at + 2].copy_from_slice(&half(rng.next()).to_le_bytes());
        }
        for &at in tops {
            b[at] &= 0xbe; // below 2
        }
    }
    row
}

/// Repacks into a record full of old bits and reads it back; returns (got, wanted).
fn round_trip(t: &QuantType, row: &[u8], k: usize) -> (Vec<f32>, Vec<f32>) {
    let mut record = vec![0xdead_beef; 4 * (t.row_vec4s)(k)];
    let multiplier = (t.repack)(row, k, &mut record);
    let got = unpack(t.name, &record, k)
        .iter()
        .map(|w| w * multiplier)
        .collect();
    let mut wanted = decode(t, row);
    wanted.resize(k.next_multiple_of(32), 0.0);
    (got, wanted)
}

fn sizes(t: &QuantType) -> Vec<usize> {
    match t.block {
        1 => vec![1, 31, 32, 33, 100, 256, 300],
        n => [1, 2, 3, 4, 5, 8, 9].map(|i| i * n).to_vec(),
    }
}

/// The row comes back exactly: NaN for NaN, otherwise equal.
fn exact(what: &str, half: &mut dyn FnMut(u32) -> u16) {
    for t in quant::ALL {
        for k in sizes(t) {
            let (got, wanted) = round_trip(t, &random_row(t, k, half), k);
            for (i, (g, w)) in got.iter().zip(&wanted).enumerate() {
                let same = g == w || g.is_nan() && w.is_nan();
                assert!(same, "{what}, {} k {k} weight {i}: {g:e} for {w:e}", t.name);
            }
        }
    }
}

#[test]
fn repacked_rows_hold_the_same_weights() {
    exact("ordinary scales", &mut |r| 0x2000 | (r & 0x9fff) as u16);
    exact("negative scales", &mut |r| 0xa000 | (r & 0x1fff) as u16);
    exact("subnormal scales", &mut |r| (r & 0x83ff) as u16);
    exact("large scales", &mut |r| (0x6000 | r & 0x9bff) as u16);
    exact("zero scales", &mut |r| (r & 0x8000) as u16);
}

#[test]
fn one_number_that_is_none_is_told_by_the_multiplier() {
    for t in quant::ALL {
        for k in sizes(t) {
            let row = random_row(t, k, &mut |r| 0x2000 | (r & 0x9fff) as u16);
            let mut record = vec![0; 4 * (t.row_vec4s)(k)];
            assert!((t.repack)(&row, k, &mut record).is_finite(), "{}", t.name);
            let (halves, _) = floats(t.name);
            for block in [0, row.len() / t.bytes / 2, row.len() / t.bytes - 1] {
                for bits in [0x7f80_0000u32, 0xff80_0000, 0x7fc0_0001] {
                    let mut bad = row.clone();
                    let b = &mut bad[block * t.bytes..][..t.bytes];
                    match (t.name, halves) {
                        ("F32", _) => b.copy_from_slice(&bits.to_le_bytes()),
                        ("BF16", _) => b.copy_from_slice(&bits.to_le_bytes()[2..]),
                        (_, halves) => {
                            let at = halves[halves.len() - 1];
                            let half = (bits >> 16 & 0x8000 | bits >> 13 & 0x7fff) as u16;
                            b[at..at + 2].copy_from_slice(&(half | 0x7c00).to_le_bytes());
                        }
                    }
                    let multiplier = (t.repack)(&bad, k, &mut record);
                    assert!(multiplier.is_nan(), "{} k {k} block {block}", t.name);
                }
            }
        }
    }
}

#[test]
fn a_row_of_zero_bytes_is_zero_and_needs_no_scale() {
    for t in quant::ALL {
        let k = 2 * t.block;
        let mut record = vec![1; 4 * (t.row_vec4s)(k)];
        assert_eq!(
            (t.repack)(&vec![0; t.row_bytes(k)], k, &mut record),
            1.0,
            "{}",
            t.name
        );
        assert!(
            unpack(t.name, &record, k).iter().all(|&w| w == 0.0),
            "{}",
            t.name
        );
    }
}

/// From 65504 to subnormals in one row: what cannot be kept is off by under 2^-28 of the largest
/// f16, times the largest factor (63 * 31) that a block multiplies it by.
#[test]
fn a_row_of_every_magnitude_is_off_by_the_stated_rounding_only() {
    for t in quant::ALL {
        let row = random_row(t, 2304, &mut |r| (r & 0xfbff) as u16);
        let (got, wanted) = round_trip(t, &row, 2304);
        let allowed = 65504.0 * 2f32.powi(-28) * 63.0 * 31.0;
        for (i, (g, w)) in got.iter().zip(&wanted).enumerate() {
            assert!(
                (g - w).abs() <= allowed,
                "{} weight {i}: {g:e} for {w:e}",
                t.name
            );
        }
    }
}

#[test]
fn f16_weights_round_as_documented() {
    let t = quant::by_id(1).unwrap();
    let row = |bits: &[u16]| {
        bits.iter()
            .flat_map(|b| b.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    // 65504 is scaled by 1/2: 2^-14 falls half-way below the smallest normal and is rounded up,
    // what is smaller becomes zero, 2^-13 is kept.
    let (got, _) = round_trip(t, &row(&[0x7bff, 0x0400, 0x8200, 0x01ff, 0x0800]), 5);
    let unit = 2f32.powi(-13);
    assert_eq!(got[..5], [65504.0, unit, -unit * 0.0, 0.0, unit]);
    // The smallest subnormal alone survives exactly.
    let (got, wanted) = round_trip(t, &row(&[0x8001]), 1);
    assert_eq!((got[0], wanted[0]), (-(2f32.powi(-24)), -(2f32.powi(-24))));
}

/// Every slot file, with `types.wgsl` and a plain `wload`, is a valid shader with the agreed names.
#[test]
fn shader_slots_are_valid_wgsl() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/");
    let read = |name: &str| std::fs::read_to_string(format!("{dir}{name}")).unwrap();
    let stub = "
        @group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;
        @group(0) @binding(1) var<storage, read_write> out: array<W32>;
        fn wload(row: u32, i: u32) -> vec4<u32> { return weights[row + i]; }
        @compute @workgroup_size(32)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let g = quant_group(0u, id.x / 8u, arrayLength(&out));
            out[id.x] = weights32(quant_load32(0u, id.x, arrayLength(&out), g));
        }";
    for t in quant::ALL {
        let source = read("types.wgsl") + &read(t.shader) + stub;
        let module = naga::front::wgsl::parse_str(&source)
            .unwrap_or_else(|e| panic!("{}: {}", t.shader, e.emit_to_string(&source)));
        let mut validator = naga::valid::Validator::new(
            naga::valid::ValidationFlags::all(),
            naga::valid::Capabilities::SHADER_FLOAT16_IN_FLOAT32, // unpack2x16float,
        );
        if let Err(e) = validator.validate(&module) {
            panic!("{}: {}", t.shader, e.emit_to_string(&source));
        }
        for (_, v) in module.global_variables.iter() {
            let name = v.name.as_deref();
            assert!(
                matches!(name, Some("weights" | "out")),
                "{} binds {name:?}",
                t.shader
            );
        }
    }
}
