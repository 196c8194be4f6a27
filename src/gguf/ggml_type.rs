//! Every tensor type ggml has defined: how many weights make a block and how many bytes it takes.
//! Most of them the engine cannot run; they are here so that a file's sizes can be checked and an
//! error can name what it found.

/// Block geometry of one tensor type (source: ggml's `enum ggml_type` and `block_*` structs).
#[derive(Debug, PartialEq, Eq)]
pub struct GgmlType {
    /// Number of the type in a GGUF file.
    pub id: u32,
    /// Name as ggml spells it, e.g. `Q4_K`.
    pub name: &'static str,
    /// Weights per block.
    pub block: u64,
    /// Bytes per block.
    pub bytes: u64,
}

const fn ty(id: u32, name: &'static str, block: u64, bytes: u64) -> GgmlType {
    GgmlType {
        id,
        name,
        block,
        bytes,
    }
}

/// All types, ordered by id.
pub static ALL: &[GgmlType] = &[
    ty(0, "F32", 1, 4),
    ty(1, "F16", 1, 2),
    ty(2, "Q4_0", 32, 18),
    ty(3, "Q4_1", 32, 20),
    ty(6, "Q5_0", 32, 22),
    ty(7, "Q5_1", 32, 24),
    ty(8, "Q8_0", 32, 34),
    ty(9, "Q8_1", 32, 36),
    ty(10, "Q2_K", 256, 84),
    ty(11, "Q3_K", 256, 110),
    ty(12, "Q4_K", 256, 144),
    ty(13, "Q5_K", 256, 176),
    ty(14, "Q6_K", 256, 210),
    ty(15, "Q8_K", 256, 292),
    ty(16, "IQ2_XXS", 256, 66),
    ty(17, "IQ2_XS", 256, 74),
    ty(18, "IQ3_XXS", 256, 98),
    ty(19, "IQ1_S", 256, 50),
    ty(20, "IQ4_NL", 32, 18),
    ty(21, "IQ3_S", 256, 110),
    ty(22, "IQ2_S", 256, 82),
    ty(23, "IQ4_XS", 256, 136),
    ty(24, "I8", 1, 1),
    ty(25, "I16", 1, 2),
    ty(26, "I32", 1, 4),
    ty(27, "I64", 1, 8),
    ty(28, "F64", 1, 8),
    ty(29, "IQ1_M", 256, 56),
    ty(30, "BF16", 1, 2),
    ty(34, "TQ1_0", 256, 54),
    ty(35, "TQ2_0", 256, 66),
    ty(39, "MXFP4", 32, 17),
    ty(40, "NVFP4", 64, 36),
    ty(41, "Q1_0", 128, 18),
    ty(42, "Q2_0", 64, 18),
];

/// Types once written to files and since removed from the format.
static REMOVED: &[(u32, &str)] = &[
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

/// The type with this number, or `None` for removed and unknown ones.
pub const fn by_id(id: u32) -> Option<&'static GgmlType> {
    let mut i = 0;
    while i < ALL.len() {
        if ALL[i].id == id {
            return Some(&ALL[i]);
        }
        i += 1;
    }
    None
}

/// Name of a type that was removed from the format.
pub fn removed_name(id: u32) -> Option<&'static str> {
    REMOVED
        .iter()
        .find(|(i, _)| *i == id)
        .map(|(_, name)| *name)
}
