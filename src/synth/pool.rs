//! The bytes behind a synthetic model: for every row length and type some random rows. Each tensor is
//! a window of them that begins where its name says, so tensors differ though they share bytes.

use super::tensors::{Numbers, Planned};
use crate::quant;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A tensor's rows repeat after this many, or fewer where they are long.
const PERIOD: usize = 64;
/// Bytes of a period at most.
const PERIOD_BYTES: usize = 1 << 20;

/// Random numbers that are the same everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A number out of a name (FNV-1a).
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Bytes of all tensors.
#[derive(Default)]
pub(super) struct Pool {
    bytes: Vec<u8>,
    /// First byte and windows (a block apart) of the rows of a type and length.
    matrices: BTreeMap<(u32, u64), (usize, usize)>,
}

impl Pool {
    /// The bytes, and where in them each tensor's begin and end.
    pub(super) fn fill(tensors: &[Planned]) -> (Vec<u8>, HashMap<String, Range<usize>>) {
        let mut pool = Pool::default();
        let mut places = HashMap::with_capacity(tensors.len());
        for p in tensors {
            let place = match &p.numbers {
                Numbers::Weights => pool.matrix(p),
                Numbers::Around(middle, deviation) => {
                    let mut random = Random(hash(&p.tensor.name));
                    let spread = f64::from(*deviation) * 3f64.sqrt();
                    let mut number = || {
                        let even = (random.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
                        (f64::from(*middle) + even * spread) as f32
                    };
                    let all: Vec<f32> = (0..p.tensor.shape[0]).map(|_| number()).collect();
                    pool.vector(&all)
                }
                Numbers::These(all) => pool.vector(all),
            };
            places.insert(p.tensor.name.clone(), place);
        }
        (pool.bytes, places)
    }

    fn vector(&mut self, all: &[f32]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend(all.iter().flat_map(|v| v.to_le_bytes()));
        start..self.bytes.len()
    }

    fn matrix(&mut self, p: &Planned) -> Range<usize> {
        let (ty, k) = (p.tensor.ty, p.tensor.shape[0]);
        let block = ty.bytes as usize;
        let row = (k / ty.block) as usize * block;
        let mut period = PERIOD;
        while period > 8 && period * row > PERIOD_BYTES {
            period /= 2;
        }
        let (start, windows) = *self.matrices.entry((ty.id, k)).or_insert_with(|| {
            let quant = quant::by_id(ty.id).expect("a type we can run");
            let rows = period + period / 2;
            let start = self.bytes.len();
            self.bytes.resize(start + rows * row, 0);
            let bytes = &mut self.bytes[start..];
            Random(u64::from(ty.id) << 32 | k).fill(bytes);
            for b in bytes.chunks_exact_mut(block) {
                (quant.random)(b, (k as f32).sqrt().recip());
            }
            (start, (rows - period) * row / block + 1)
        });
        let first = start + (hash(&p.tensor.name) % windows as u64) as usize * block;
        first..first + period * row
    }
}
