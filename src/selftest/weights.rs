//! Weight matrices for kernel cases: random valid blocks in a GGUF made in memory, so that repacking,
//! the shader's decoding and the twin's decoding of the file are all part of the test.

use std::sync::Arc;

use super::noise::Rng;
use crate::gguf::Gguf;
use crate::model::Matrix;
use crate::model::matrix::SharedMatrix;
use crate::quant::{self, QuantType};

/// The weight type of that name.
pub fn ty(name: &str) -> &'static QuantType {
    let all = quant::ALL.iter();
    all.clone()
        .find(|t| t.name == name)
        .unwrap_or_else(|| panic!("no weight type {name}"))
}

/// Random blocks: any quants, scales of either sign. `subnormal`: every f16 of the matrix is one.
pub fn matrix(
    t: &'static QuantType,
    rows: usize,
    k: usize,
    subnormal: bool,
    r: &mut Rng,
) -> SharedMatrix {
    let mut data = Vec::with_capacity(rows * t.row_bytes(k));
    // Blocks with scales of scales need smaller ones for weights of about one.
    let exponent = match t.block {
        1 => 13,
        32 => 8,
        _ => 2,
    };
    for _ in 0..rows * k / t.block {
        let at = data.len();
        data.extend((0..t.bytes).map(|_| r.next() as u8));
        if t.halves.is_empty() {
            (t.random)(&mut data[at..], 0.5);
        }
        for i in t.halves {
            let bits = r.next() as u16;
            let e = if subnormal {
                0
            } else {
                exponent + (bits >> 10 & 1)
            };
            let half = (bits & 0x83ff) | e << 10;
            data[at + i..at + i + 2].copy_from_slice(&half.to_le_bytes());
        }
    }
    from_bytes(t, rows, k, data)
}

/// The same matrix with one quant of row 0 changed (not for plain floats).
pub fn damaged(m: &Matrix) -> SharedMatrix {
    let mut data: Vec<u8> = (0..m.rows).flat_map(|r| m.row(r).unwrap()).collect();
    data[m.ty.bytes / 2] ^= 0x55;
    from_bytes(m.ty, m.rows, m.k, data)
}

fn from_bytes(t: &'static QuantType, rows: usize, k: usize, data: Vec<u8>) -> SharedMatrix {
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend(1u64.to_le_bytes()); // tensors
    file.extend(0u64.to_le_bytes()); // keys
    file.extend(1u64.to_le_bytes());
    file.extend(b"w");
    file.extend(2u32.to_le_bytes());
    file.extend((k as u64).to_le_bytes());
    file.extend((rows as u64).to_le_bytes());
    file.extend(t.ggml.id.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(data);
    file.resize(file.len().next_multiple_of(32), 0);
    let g = Gguf::from_bytes("case.gguf", file).expect("a valid file");
    Arc::new(Matrix::find(&g, "w", k as u32, rows as u32, None).expect("a matrix"))
}
