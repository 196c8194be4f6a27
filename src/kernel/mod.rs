//! What each shader promises: its file, its parameters, its bindings and which of them it writes,
//! and pure functions that choose a variant and a grid from device capabilities and shapes.
//!
//! Nothing here knows wgpu or GGUF. A [`Kernel`] row names a shader under `shaders/` and its
//! parameter block; the GPU room composes and runs it, the reference room has a CPU twin for each.

pub mod again;
pub mod choose;
pub mod params;
pub mod shader;

pub use choose::Caps;
pub use shader::Shader;

/// One row of the kernel table.
pub struct Kernel {
    /// Name used in plans and reports, and of the file `shaders/<name>.wgsl`.
    pub name: &'static str,
    /// The fields of `struct Params` in the shader: (name, WGSL type). Every field is 4 bytes.
    pub fields: &'static [(&'static str, &'static str)],
    /// Names of the bindings it reads, as the shader spells them (without `P`); some only with some slots.
    pub reads: &'static [&'static str],
    /// Names of the bindings it writes (and may read).
    pub writes: &'static [&'static str],
}

/// All that a product may bind; `sums` with slot scale = norm, the last of each list with sink = norm.
const PRODUCT_READS: &[&str] = &["w", "x", "sums", "gain"];
const PRODUCT_WRITES: &[&str] = &["out", "hn", "sums_out"];

/// Products of two matrices.
const PAIR_READS: &[&str] = &["w", "w2", "x", "sums"];

/// Every kernel. `matvec`, `matvec_rows` and `matmul` compute the same thing in three ways.
pub static ALL: &[Kernel] = &[
    kernel::<params::GetRows>(
        "get_rows",
        &["w", "cols", "gain"],
        &["out", "hn", "sums_out"],
    ),
    kernel::<params::MatVec>("matvec", PRODUCT_READS, PRODUCT_WRITES),
    kernel::<params::MatVec>("matvec_rows", PRODUCT_READS, PRODUCT_WRITES),
    kernel::<params::MatVec>("matvec2", PAIR_READS, &["out"]),
    kernel::<params::MatVec>("matvec_rows2", PAIR_READS, &["out"]),
    kernel::<params::MatVec>("matmul", &["w", "x"], &["out"]),
    kernel::<params::Norm>("rms_norm", &["x", "weight"], &["out"]),
    kernel::<params::Norm>("post_norm", &["x", "weight"], &["h", "out"]),
    kernel::<params::Glu>("glu", &["x"], &["out"]),
    kernel::<params::TakeRow>("take_row", &["x", "cols"], &["out"]),
    kernel::<params::RopeKv>(
        "rope_kv",
        &["x", "cols", "pages", "rope", "aux"],
        &["q", "kc", "vc"],
    ),
    kernel::<params::Attention>("attention", &["x", "kc", "vc", "cols", "pages"], &["part"]),
    kernel::<params::Attention>(
        "attention_rows",
        &["x", "kc", "vc", "cols", "pages"],
        &["part"],
    ),
    kernel::<params::AttnCombine>("attn_combine", &["part", "cols"], &["out"]),
    kernel::<params::Penalize>(
        "penalize",
        &["slots", "cols", "history", "rows"],
        &["logits"],
    ),
    kernel::<params::LogitsPart>("logits_part", &["logits"], &["part"]),
    kernel::<params::Sample>(
        "sample",
        &["logits", "part", "rows"],
        &["slots", "cols", "history", "ring"],
    ),
    kernel::<params::PeakFma>("peak_fma", &["x"], &["out"]),
];

const fn kernel<P: params::Params>(
    name: &'static str,
    reads: &'static [&'static str],
    writes: &'static [&'static str],
) -> Kernel {
    Kernel {
        name,
        fields: P::FIELDS,
        reads,
        writes,
    }
}

/// The row of a kernel by name.
pub fn by_name(name: &str) -> &'static Kernel {
    ALL.iter()
        .find(|k| k.name == name)
        .unwrap_or_else(|| panic!("no kernel named {name}"))
}
