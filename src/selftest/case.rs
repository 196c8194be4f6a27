//! One case: a few steps on buffers of their own, whose contents say what a kernel may read and write.

use std::sync::Arc;

use crate::kernel::params::Params;
use crate::kernel::{Caps, Shader};
use crate::plan::{Batch, Bind, BufId, Buffer, Dim, Init, Pool, Step};

/// What outputs hold before: a NaN no kernel makes. Who does not write must leave its very bits.
pub const POISON: u32 = 0x7fc0_beef;
/// What inputs hold where nothing may look: another NaN, so that one that got into a result shows.
pub const NAN: u32 = 0x7fc0_dead;
/// Words before and behind what a kernel may touch; before: one step of a binding's offset.
pub const GUARD: usize = 64;

/// Steps on buffers of their own.
#[derive(Clone)]
pub struct Case {
    /// Shown when it fails.
    pub label: String,
    /// First contents included.
    pub buffers: Vec<Buffer>,
    /// In order; their bindings are numbers of `buffers`.
    pub steps: Vec<Step>,
    /// What the grids are filled in with.
    pub batch: Batch,
}

impl Case {
    /// A case without buffers and steps.
    pub fn new(label: String, cols: u32, kv_len: u32) -> Case {
        Case {
            label,
            buffers: Vec::new(),
            steps: Vec::new(),
            batch: Batch { cols, kv_len },
        }
    }

    /// A buffer of its own.
    pub fn buffer(&mut self, init: Init, bytes: usize, texture: Option<u32>) -> BufId {
        self.buffers.push(Buffer {
            name: format!("{} #{}", self.label, self.buffers.len()),
            pool: Pool::Scratch,
            bytes: bytes.next_multiple_of(16) as u64,
            texture,
            layers: 0,
            init,
        });
        self.buffers.len() - 1
    }

    /// Words as they are.
    pub fn words(&mut self, v: Vec<u32>) -> BufId {
        let n = v.len() * 4;
        self.buffer(Init::U32(Arc::new(v)), n, None)
    }

    /// Numbers as they are.
    pub fn floats(&mut self, v: &[f32]) -> BufId {
        self.words(v.iter().map(|v| v.to_bits()).collect())
    }

    /// Words between guards of `filler`; to be bound with [`bind_guarded`]. `least`: words the
    /// binding needs, for a uniform one.
    pub fn guarded(&mut self, live: &[u32], filler: u32, least: usize) -> BufId {
        let mut v = vec![filler; GUARD];
        v.extend(live);
        v.resize(
            (v.len() + GUARD).max(GUARD + least).next_multiple_of(4),
            filler,
        );
        self.words(v)
    }

    /// A KV cache: as its words between guards, or where the device has it as a texture, filled up to whole
    /// layers of four pages of `page` words. To be bound with [`Case::bind_cache`].
    pub fn cache(&mut self, mut words: Vec<u32>, filler: u32, texture: bool, page: usize) -> BufId {
        if !texture {
            return self.guarded(&words, filler, 0);
        }
        let layers = words.len().div_ceil(4 * page);
        words.resize(layers * 4 * page, filler);
        let n = words.len() * 4;
        let id = self.buffer(Init::U32(Arc::new(words)), n, Some(6));
        self.buffers[id].layers = layers as u32;
        id
    }

    /// Binds a cache.
    pub fn bind_cache(&self, name: &'static str, buf: BufId) -> Bind {
        match self.buffers[buf].texture {
            Some(_) => bind(name, buf),
            None => bind_guarded(name, buf),
        }
    }

    /// A step behind those there are.
    pub fn step<P: Params>(&mut self, shader: Shader, params: P, binds: Vec<Bind>, grid: [Dim; 3]) {
        let label = self.label.clone();
        self.steps
            .push(Step::new(label, shader, params, binds, grid));
    }

    /// Whether each buffer fits the bindings of a device.
    pub fn fits(&self, caps: &Caps) -> bool {
        self.buffers.iter().all(|b| b.bytes <= caps.max_storage)
    }

    /// Buffers that any step writes, in the order of steps.
    pub fn written(&self) -> Vec<Written> {
        let mut all: Vec<Written> = Vec::new();
        for (i, step) in self.steps.iter().enumerate() {
            let writes = step.kernel().writes;
            for b in step.binds.iter().filter(|b| writes.contains(&b.name)) {
                match all.iter_mut().find(|w| w.buf == b.buf) {
                    Some(w) => w.last = i,
                    None => all.push(Written {
                        name: b.name,
                        buf: b.buf,
                        last: i,
                    }),
                }
            }
        }
        all
    }
}

/// A buffer that steps of a case write.
pub struct Written {
    /// What it is bound to.
    pub name: &'static str,
    /// Which it is.
    pub buf: BufId,
    /// The last step that writes it.
    pub last: usize,
}

/// A whole buffer bound.
pub fn bind(name: &'static str, buf: BufId) -> Bind {
    Bind {
        name,
        buf,
        offset: 0,
    }
}

/// A buffer of [`Case::guarded`] bound behind its first guard.
pub fn bind_guarded(name: &'static str, buf: BufId) -> Bind {
    bind_at(name, buf, 0)
}

/// The same from word `word` of the live part on.
pub fn bind_at(name: &'static str, buf: BufId, word: u32) -> Bind {
    Bind {
        name,
        buf,
        offset: 4 * (GUARD as u64 + u64::from(word)),
    }
}
