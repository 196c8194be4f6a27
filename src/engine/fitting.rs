//! Whether a model with a context fits the device, before anything is taken of it: what a program takes by
//! pool, and the largest context that there is room for.

use crate::gpu::{Gpu, staging_bytes};
use crate::kernel::Caps;
use crate::model::Model;
use crate::plan::sizes::{RING_LEN, Wish};
use crate::plan::{self, Init, Plan, Pool, Program, Sizes};
use crate::{Error, Result};

/// Largest contexts are whole multiples of this many positions.
const STEP: u32 = 256;

/// Types a KV cache can have. There is one.
pub const KV_TYPES: [&str; 1] = ["f16"];

/// Bytes by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Repacked weights, norms, rotary tables.
    pub weights: u64,
    /// Key and value cache.
    pub kv: u64,
    /// Activations, logits, step state.
    pub scratch: u64,
    /// Parameters of all steps.
    pub params: u64,
    /// What weights pass through on their way; given back at the end of a load.
    pub staging: u64,
    /// Copies of produced tokens that the host reads.
    pub readback: u64,
}

impl Memory {
    /// What a program will take while it loads: all its pools side by side.
    pub fn of(p: &Program) -> Memory {
        let mut m = Memory::default();
        for b in &p.buffers {
            *m.pool(b.pool) += b.bytes;
        }
        // The plan for all logits is made on its first use.
        let steps = [&p.decode, &p.prefill].map(|p: &Plan| p.steps().count() as u64);
        m.params = steps.iter().sum::<u64>() * crate::gpu::PARAMS_BYTES;
        m.staging = staging_bytes(&p.buffers);
        m.readback = 2 * ring_bytes(&p.sizes).next_multiple_of(16);
        m
    }

    /// Pools and their bytes.
    pub fn pools(&self) -> [(Pool, u64); 6] {
        [
            (Pool::Weights, self.weights),
            (Pool::Kv, self.kv),
            (Pool::Scratch, self.scratch),
            (Pool::Params, self.params),
            (Pool::Staging, self.staging),
            (Pool::Readback, self.readback),
        ]
    }

    /// What `counted` has more of than `before`, both as [`Gpu::pools`] gives them.
    pub(super) fn since(before: &[u64], counted: &[u64]) -> Memory {
        let mut m = Memory::default();
        for (i, pool) in Pool::ALL.into_iter().enumerate() {
            *m.pool(pool) = counted[i] - before[i];
        }
        m
    }

    fn pool(&mut self, pool: Pool) -> &mut u64 {
        match pool {
            Pool::Weights => &mut self.weights,
            Pool::Kv => &mut self.kv,
            Pool::Scratch => &mut self.scratch,
            Pool::Params => &mut self.params,
            Pool::Staging => &mut self.staging,
            Pool::Readback => &mut self.readback,
        }
    }

    /// All pools.
    pub fn total(&self) -> u64 {
        self.pools().iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Bytes of a copy of the ring of produced tokens.
pub(super) fn ring_bytes(s: &Sizes) -> u64 {
    u64::from(s.slots * RING_LEN) * 4
}

/// Bytes of repacked weights by their type in the file, most first; vectors and tables as `other`.
pub fn weights_by_type(p: &Program) -> Vec<(&'static str, u64)> {
    let mut types: Vec<(&str, u64)> = Vec::new();
    for b in p.buffers.iter().filter(|b| b.pool == Pool::Weights) {
        let name = match &b.init {
            Init::Rows { matrix, .. } => matrix.ty.name,
            _ => "other",
        };
        match types.iter_mut().find(|(n, _)| *n == name) {
            Some((_, bytes)) => *bytes += b.bytes,
            None => types.push((name, b.bytes)),
        }
    }
    types.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    types
}

/// What a context takes on a device.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Positions.
    pub context: u32,
    /// Bytes by pool; an error where the device's limits do not allow it at all.
    pub memory: Result<Memory, String>,
    /// Whether it has room in what the device has left; `None`: that is not known.
    pub fits: Option<bool>,
}

/// A few contexts for one sequence from small to the model's, the largest that fits among them.
pub fn fits(model: &Model, gpu: &Gpu) -> Vec<Fit> {
    let own = model.hyper.context;
    let mut contexts: Vec<u32> = [512, 2048, 8192, 32768, 131_072, 524_288].to_vec();
    contexts.retain(|c| *c < own);
    contexts.push(own);
    let largest = largest(model, &gpu.caps, gpu.memory, 1, own);
    contexts.extend(largest.filter(|c| !contexts.contains(c)));
    contexts.sort_unstable();
    let one = |context| {
        let memory = plan::fit(model, &gpu.caps, wish(context, 1)).map(|p| Memory::of(&p));
        let total = memory.as_ref().map(Memory::total);
        Fit {
            context,
            fits: match (&total, gpu.memory) {
                (Err(_), _) => Some(false),
                (Ok(_), None) => None,
                (Ok(bytes), Some(left)) => Some(*bytes <= left),
            },
            memory: memory.map_err(|e| e.to_string()),
        }
    };
    contexts.into_iter().map(one).collect()
}

/// What a load of one sequence with a context would take of a device, or the error that it would end with before
/// it takes anything.
pub fn fit(model: &Model, gpu: &Gpu, context: u32) -> Result<Memory> {
    let program = fitting(model, &gpu.caps, gpu.memory, wish(context, 1), false);
    program.map(|p| Memory::of(&p))
}

fn wish(context: u32, slots: u32) -> Wish {
    Wish {
        context: Some(context),
        slots,
        chunk: None,
    }
}

/// The largest context up to `most` (a multiple of 256, or `most` itself) for so many sequences that the
/// limits of a device allow and whose program fits into `memory`, the bytes that are left where that is known.
pub fn largest(
    model: &Model,
    caps: &Caps,
    memory: Option<u64>,
    slots: u32,
    most: u32,
) -> Option<u32> {
    largest_for(model, caps, memory, wish(most, slots), most).map(|p| p.sizes.context)
}

fn largest_for(
    model: &Model,
    caps: &Caps,
    memory: Option<u64>,
    wish: Wish,
    most: u32,
) -> Option<Program> {
    let at = |context| {
        let context = Some(context);
        let program = plan::fit(model, caps, Wish { context, ..wish }).ok()?;
        let bytes = Memory::of(&program).total();
        memory.is_none_or(|left| bytes <= left).then_some(program)
    };
    if let Some(program) = at(most) {
        return Some(program);
    }
    // `fits` does, `over` steps do not.
    let (mut fits, mut over) = (0, most.div_ceil(STEP));
    let mut best = None;
    while over - fits > 1 {
        let middle = fits + (over - fits) / 2;
        match at(middle * STEP) {
            Some(program) => (fits, best) = (middle, Some(program)),
            None => over = middle,
        }
    }
    best
}

/// The program for a wish. A context that was asked for is an error that names the largest one if it does
/// not fit into `memory` (bytes that are left, where that is known); with `auto`, or where nobody asked
/// for any, the largest is taken.
pub(super) fn fitting(
    model: &Model,
    caps: &Caps,
    memory: Option<u64>,
    wish: Wish,
    auto: bool,
) -> Result<Program> {
    let most = match wish.context {
        None if auto => model.hyper.context,
        None => Sizes::fit(&model.hyper, caps, wish)?.context,
        Some(context) => context,
    };
    let context = Some(most);
    let first = plan::fit(model, caps, Wish { context, ..wish });
    let bytes = match &first {
        Ok(program) => Memory::of(program).total(),
        Err(_) => u64::MAX,
    };
    match first {
        Ok(program) if memory.is_none_or(|left| bytes <= left) => return Ok(program),
        // Not for want of memory: the limit is named, and the largest context that fits both.
        Err(Error::ContextTooLarge {
            context,
            largest,
            slots,
            limit,
        }) if !auto => {
            let best = largest_for(model, caps, memory, wish, largest);
            return Err(Error::ContextTooLarge {
                context,
                largest: best.map_or(0, |p| p.sizes.context),
                slots,
                limit,
            });
        }
        Err(e) if !auto => return Err(e),
        _ => (),
    }
    let best = largest_for(model, caps, memory, wish, most);
    match (best, first) {
        (Some(program), _) if auto || wish.context.is_none() => Ok(program),
        (None, Err(e)) => Err(e),
        (best, _) => Err(Error::NoRoom {
            context: most,
            bytes,
            memory: memory.unwrap_or_default(),
            largest: best.map(|p| p.sizes.context),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Gguf;
    use std::path::Path;

    fn caps() -> Caps {
        Caps {
            subgroups: false,
            subgroup_min: 1,
            subgroup_max: 1,
            software: true,
            ..Caps::usual_gpu()
        }
    }

    fn model() -> Model {
        let file = "tests/cases/scripted/scripted_stream.gguf"; // trained for 65536 positions
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        Model::from_gguf(&Gguf::open(&path).unwrap()).unwrap()
    }

    #[test]
    fn a_context_fits_into_the_memory_or_is_refused() {
        let (model, caps) = (model(), caps());
        let fit = |context, memory, auto| {
            let wish = Wish {
                context,
                slots: 1,
                chunk: None,
            };
            let fitted = fitting(&model, &caps, memory, wish, auto);
            fitted.map(|p| (p.sizes.context, Memory::of(&p).total()))
        };
        let (whole, bytes) = fit(None, None, false).unwrap();
        let all = fit(None, Some(bytes), false).unwrap().0;
        assert_eq!((whole, all), (65536, 65536));
        for auto in [false, true] {
            // A byte less, and it is the next multiple of 256.
            assert_eq!(fit(None, Some(bytes - 1), auto).unwrap().0, 65536 - 256);
            for part in [2, 3, 5] {
                let (context, took) = fit(None, Some(bytes / part), auto).unwrap();
                assert!(took <= bytes / part && context % 256 == 0);
                let more = fit(Some(context + 256), None, false).unwrap().1;
                assert!(more > bytes / part, "{context} is not the largest");
                // What was asked for is refused, and the largest is named.
                let error = fit(Some(65536), Some(bytes / part), false).unwrap_err();
                let error = error.to_string();
                assert!(error.contains(&format!("-c {context}")), "{error}");
                assert!(error.contains("-c auto"), "{error}");
            }
        }
        for (context, memory) in [(Some(65536), 100), (None, 100)] {
            let error = fit(context, Some(memory), false).unwrap_err().to_string();
            assert!(
                error.contains("100") && error.contains("no context"),
                "{error}"
            );
        }
        // Limits name themselves; `auto` goes by them.
        let small = Caps {
            max_storage: 1 << 20,
            ..caps.clone()
        };
        let wish = Wish {
            context: None,
            slots: 1,
            chunk: None,
        };
        let auto = fitting(&model, &small, None, wish, true).unwrap();
        let none = fitting(&model, &small, None, wish, false).unwrap();
        assert!(auto.sizes.context >= none.sizes.context / 256 * 256);
        assert!(auto.sizes.context < 65536);
        let context = Some(65536);
        let error = fitting(&model, &small, None, Wish { context, ..wish }, false);
        let error = error.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("max_storage_buffer_binding_size"), "{error}");
        let most = Sizes::fit(&model.hyper, &small, wish).unwrap().context;
        assert!(error.contains(&format!("does is {most} (-c)")), "{error}");
    }
}
