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
}

impl Caps {
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
        self.subgroups && self.subgroup_min >= 8
    }

    /// Whether the KV cache is an image: where lanes can share what one of them has fetched.
    pub fn kv_texture(&self) -> bool {
        self.software && self.spread()
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
