//! The case table of the kernels that know the paged cache; `paged.rs` makes cases of its rows.

/// `rope_kv`.
#[derive(Clone, Copy, Debug)]
pub struct RopeKv {
    pub hd: u32,
    pub rot: u32,
    pub n_head: u32,
    pub n_kv: u32,
    pub bias: bool,
    pub norm: bool,
    pub shared: bool,
    /// The cache is a texture, where the device can do that.
    pub texture: bool,
}

pub fn rope_kvs() -> Vec<RopeKv> {
    let mut all = Vec::new();
    let heads = [
        (8, 8),
        (12, 12),
        (16, 8),
        (64, 64),
        (80, 32),
        (128, 128),
        (256, 256),
        (256, 64),
    ];
    for (i, (hd, rot)) in heads.into_iter().enumerate() {
        for j in 0..2 {
            let n_kv = if hd > 64 { 1 } else { 2 };
            let (bias, norm) = ((i + j) % 2 == 0, (i / 2 + j) % 2 == 0);
            all.push(RopeKv {
                hd,
                rot,
                n_head: n_kv * 3,
                n_kv,
                bias,
                norm,
                shared: j == 1,
                texture: false,
            });
        }
    }
    let textures: Vec<RopeKv> = all
        .iter()
        .map(|a| RopeKv {
            shared: false,
            texture: true,
            ..*a
        })
        .collect();
    all.extend(textures);
    all
}

/// `attention` and `attn_combine`.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    pub hd: u32,
    pub n_head: u32,
    pub n_kv: u32,
    pub window: u32,
    pub kv_len: u32,
    pub chunk: u32,
    /// Columns per dispatch; 0: all.
    pub tile: u32,
    pub shared: bool,
    pub uniform: bool,
    /// The cache is a texture, where the device can do that.
    pub texture: bool,
}

pub fn attentions() -> Vec<Attention> {
    let mut all = Vec::new();
    let lens = [1, 31, 255, 256, 257, 700];
    let windows = [0, 1, 8, 300];
    let shapes = [
        (8, 2, 2),
        (12, 4, 2),
        (16, 3, 1),
        (64, 9, 3),
        (64, 8, 2),
        (80, 5, 1),
        (96, 16, 2),
        (128, 8, 1),
        (256, 4, 1),
        (512, 2, 1),
    ];
    for (i, (hd, n_head, n_kv)) in shapes.into_iter().enumerate() {
        for (j, kv_len) in lens.into_iter().enumerate() {
            all.push(Attention {
                hd,
                n_head,
                n_kv,
                kv_len,
                window: windows[(i + j) % 4],
                chunk: if (i + j) % 3 == 0 { 512 } else { 256 },
                tile: if j % 2 == 0 { 0 } else { 2 },
                shared: i % 2 == 1,
                uniform: (i / 2 + j) % 2 == 1,
                texture: false,
            });
        }
    }
    // attention_rows, and attention where q does not fit a uniform.
    let rows: Vec<Attention> = all
        .iter()
        .map(|a| Attention {
            shared: false,
            uniform: a.hd != 12,
            texture: true,
            ..*a
        })
        .collect();
    all.extend(rows);
    all
}
