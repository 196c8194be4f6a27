//! Pure choices: from what a device can do and the shape at hand to a variant and a grid.

/// What a device can do, as far as kernels care. Filled by the GPU room, or by hand in tests.
#[derive(Clone, Debug, PartialEq)]
pub struct Caps {
    /// Subgroup operations work.
    pub subgroups: bool,
    /// Smallest subgroup the device may use.
    pub subgroup_min: u32,
    /// Largest subgroup the device may use.
    pub subgroup_max: u32,
    /// Weights as textures and activations through uniforms, one row per lane: a software device.
    pub software: bool,
    /// Bytes a storage binding may have.
    pub max_storage: u64,
    /// Bytes a uniform binding may have.
    pub max_uniform: u64,
    /// Texels of a texture side.
    pub max_texture: u32,
    /// Layers of a texture.
    pub max_layers: u32,
    /// Workgroups per dimension of a dispatch.
    pub max_grid: u32,
    /// Lanes per workgroup.
    pub max_lanes: u32,
    /// What is not to be used although the device has it.
    pub avoid: Avoid,
}

impl Caps {
    /// A usual GPU with subgroups of 32: for plans of devices that are not here, as in tests.
    pub fn usual_gpu() -> Caps {
        Caps {
            subgroups: true,
            subgroup_min: 32,
            subgroup_max: 32,
            software: false,
            max_storage: 128 << 20,
            max_uniform: 64 << 10,
            max_texture: 16384,
            max_layers: 2048,
            max_grid: 65535,
            max_lanes: 1024,
            avoid: Avoid::default(),
        }
    }
}

/// Ways of doing things that are not taken, since a variant they lead to computed wrong numbers on this
/// device. Each has another way beside it that gives the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Avoid {
    /// Two matrices in one dispatch: each has its own.
    pub pairs: bool,
    /// Norms begun and ended in products: they are steps.
    pub fused_norms: bool,
    /// Several columns in one pass over the weights: one after the other.
    pub columns: bool,
    /// Activations handed from lane to lane: each lane reads them.
    pub spread: bool,
    /// The KV cache as an image: it is a buffer.
    pub kv_texture: bool,
    /// `matvec_rows`: `matvec` does its work.
    pub matvec_rows: bool,
    /// `matmul`: `matvec` does its work.
    pub matmul: bool,
    /// Half the lanes in the small kernels' workgroups, and in those of `matvec` that are a team without subgroups.
    pub lanes: bool,
}

impl Avoid {
    /// Whether anything is avoided.
    pub fn any(self) -> bool {
        self != Avoid::default()
    }
}

/// A lever that leads around some variants, by its name; in the order of what they cost.
pub type Lever = (&'static str, fn(&mut Caps));

/// All levers. Those that cost least come first.
pub static LEVERS: &[Lever] = &[
    ("smaller workgroups", |c| c.avoid.lanes = true),
    ("one matrix per dispatch", |c| c.avoid.pairs = true),
    ("norms as steps", |c| c.avoid.fused_norms = true),
    ("KV cache as a buffer", |c| c.avoid.kv_texture = true),
    ("activations read by each lane", |c| c.avoid.spread = true),
    ("one column at a time", |c| c.avoid.columns = true),
    ("matvec for matmul", |c| c.avoid.matmul = true),
    ("no subgroups", |c| c.subgroups = false),
    ("matvec for matvec_rows", |c| c.avoid.matvec_rows = true),
    ("weights as buffers", |c| c.software = false),
];

impl Caps {
    /// Lanes of the workgroups of a small kernel that usually has `usual`, a power of two.
    pub fn lanes(&self, usual: u32) -> u32 {
        let usual = usual.min(self.max_lanes);
        if self.avoid.lanes { usual / 2 } else { usual }
    }

    /// The same of one that sums over its workgroup: whole subgroups.
    pub fn group_lanes(&self, usual: u32) -> u32 {
        let least = if self.subgroups { self.subgroup_max } else { 1 };
        self.lanes(usual).max(least.min(usual))
    }

    /// The slot file for sums over a workgroup.
    pub fn group(&self) -> (&'static str, &'static str) {
        (
            "group",
            if self.subgroups {
                "slots/group_subgroup.wgsl"
            } else {
                "slots/group_shared.wgsl"
            },
        )
    }

    /// The slot file for teams of lanes that share a row.
    pub fn team(&self) -> (&'static str, &'static str) {
        (
            "team",
            if self.subgroups {
                "slots/team_subgroup.wgsl"
            } else {
                "slots/team_shared.wgsl"
            },
        )
    }

    /// The slot file for weights.
    pub fn weights(&self) -> (&'static str, &'static str) {
        (
            "weights",
            if self.software {
                "slots/weights_texture.wgsl"
            } else {
                "slots/weights_storage.wgsl"
            },
        )
    }

    /// Whether lanes can hand activations on to each other (slot `x_spread`).
    pub fn spread(&self) -> bool {
        self.subgroups && self.subgroup_min >= 8 && !self.avoid.spread
    }

    /// Whether the KV cache is an image: where lanes can share what one of them has fetched.
    pub fn kv_texture(&self) -> bool {
        self.software && self.spread() && !self.avoid.kv_texture
    }

    /// The slot file for reading the KV cache.
    pub fn kv(&self) -> (&'static str, &'static str) {
        let texture = self.kv_texture();
        let file = if texture {
            "slots/kv_texture.wgsl"
        } else {
            "slots/kv_storage.wgsl"
        };
        ("kv", file)
    }

    /// The slot file for writing it.
    pub fn cache(&self) -> (&'static str, &'static str) {
        let texture = self.kv_texture();
        let file = if texture {
            "slots/cache_texture.wgsl"
        } else {
            "slots/cache_storage.wgsl"
        };
        ("cache", file)
    }

    /// Whether `bytes` of activations can come through slot `x_uniform`, whose binding is always
    /// [`UNIFORM_X`] bytes long.
    pub fn uniform_x(&self, bytes: u32) -> bool {
        self.max_uniform >= u64::from(UNIFORM_X) && bytes <= UNIFORM_X
    }
}

/// Bytes that `slots/x_uniform.wgsl` declares: what every WebGPU device allows.
pub const UNIFORM_X: u32 = 65536;
