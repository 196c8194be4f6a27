//! The cases of one variant: what its slots and overrides say, back as rows of the table.

use super::cases::{self, GetRows, Norm, PRODUCT, Product};
use super::paged_cases::{Attention, RopeKv};
use super::pairs::{self, Pair};
use super::sampling::{Sampling, samplings};
use super::{Case, all, make, paged, sampling};
use crate::kernel::choose::Avoid;
use crate::kernel::{Caps, Shader};
use crate::plan::product::{Ends, X};
use crate::quant;

/// The file in a slot of a shader, without folder and ending.
fn slot<'s>(s: &'s Shader, name: &str) -> &'s str {
    let file = s.slots.iter().find(|(n, _)| *n == name).map_or("", |s| s.1);
    let stem = file.rsplit('/').next().unwrap_or_default();
    stem.trim_end_matches(".wgsl")
}

fn value(s: &Shader, name: &str) -> u32 {
    let found = s.overrides.iter().find(|(n, _)| *n == name);
    found.map_or(0, |(_, v)| *v)
}

/// The weight type in a slot.
fn ty(s: &Shader, name: &str) -> &'static str {
    let file = s.slots.iter().find(|(n, _)| *n == name).map_or("", |s| s.1);
    let found = quant::ALL.iter().find(|t| t.shader == file);
    found
        .unwrap_or_else(|| panic!("no weight type in {s}"))
        .name
}

fn x(s: &Shader) -> X {
    match slot(s, "x") {
        "x_spread" => X::Spread,
        "x_uniform" => X::Uniform,
        _ => X::Storage,
    }
}

/// Cases that run exactly this variant on a device: odd sizes, each way the variant can go. Of the other variants that
/// they take beside it none is `bad`, if that can be.
pub fn for_shader(caps: &Caps, s: &Shader, bad: &dyn Fn(&Shader) -> bool) -> Vec<Case> {
    // Nothing is avoided here but what leads to this variant.
    let lanes = |lanes| {
        let avoid = Avoid {
            lanes,
            ..Avoid::default()
        };
        let caps = Caps {
            avoid,
            ..caps.clone()
        };
        let mut found = of_kernel(&caps, s);
        found.retain(|c| c.fits(&caps) && c.steps.iter().any(|step| step.shader == *s));
        found
    };
    let helped = |c: &Case| c.steps.iter().all(|t| t.shader == *s || !bad(&t.shader));
    let usual = lanes(false);
    if usual.iter().any(helped) {
        return usual;
    }
    let half = lanes(true);
    match half.iter().any(helped) || usual.is_empty() {
        true => half,
        false => usual,
    }
}

fn of_kernel(caps: &Caps, s: &Shader) -> Vec<Case> {
    let shared = slot(s, "group") == "group_shared" || slot(s, "team") == "team_shared";
    let lanes = value(s, "WG");
    match s.kernel {
        "matvec" | "matvec_rows" | "matmul" => {
            let mut rows = Vec::new();
            let base = Product {
                kernel: s.kernel,
                ty: ty(s, "quant"),
                columns: value(s, "COLS").max(1),
                texture: slot(s, "weights") == "weights_texture",
                x: x(s),
                shared,
                ends: Ends {
                    scale: slot(s, "scale") == "scale_norm",
                    sink: slot(s, "sink") == "sink_norm",
                },
                lanes,
                ..PRODUCT
            };
            cases::sweep(&mut rows, base);
            all(rows, |p, r| make::product(caps, p, r))
        }
        "matvec2" | "matvec_rows2" => {
            let mut rows = Vec::new();
            let base = Pair {
                kernel: s.kernel,
                types: [ty(s, "quant"), ty(s, "quant2")],
                rows: [64, 32],
                k: 512,
                columns: value(s, "COLS").max(1),
                n_cols: value(s, "COLS").max(1),
                gap: 0,
                shared,
                x: x(s),
                scale: slot(s, "scale") == "scale_norm",
                max_grid: caps.max_grid,
                nan: false,
                lanes,
                texture: slot(s, "weights") == "weights_texture",
            };
            pairs::sweep(&mut rows, base, 0);
            all(rows, |p, r| pairs::case(caps, p, r))
        }
        "get_rows" => {
            let ty = ty(s, "quant");
            let base = GetRows {
                ty,
                norm: slot(s, "embed") == "embed_norm",
                texture: slot(s, "weights") == "weights_texture",
                k: 256,
                scale: 22.6,
                subnormal: false,
            };
            let rows = cases::lengths(ty).iter().map(|&k| GetRows { k, ..base });
            all(rows, |p, r| make::get_rows(caps, p, r))
        }
        "rms_norm" | "post_norm" => {
            let rows = cases::norms().into_iter().filter(|p| p.kernel == s.kernel);
            // Sizes and lengths once each.
            let rows = rows
                .filter(|p| p.lanes == 32)
                .map(|p| Norm { shared, lanes, ..p });
            all(rows, |p, r| make::norm(caps, p, r))
        }
        "glu" => all(cases::glus(), |p, r| make::glu(caps, p, r)),
        "take_row" => all(cases::TAKE_ROWS, |p, r| make::take_row(caps, *p, r)),
        "peak_fma" => all(cases::PEAK_FMAS, |p, r| make::peak_fma(*p, r)),
        "rope_kv" => {
            let texture = slot(s, "cache") == "cache_texture";
            let shapes = [(12, 12), (64, 64), (128, 128), (256, 64)];
            let rows = shapes.into_iter().enumerate().map(|(i, (hd, rot))| RopeKv {
                hd,
                rot,
                n_head: 6,
                n_kv: 2,
                bias: i % 2 == 0,
                norm: i / 2 == 0,
                shared,
                texture,
            });
            all(rows, |p, r| paged::rope_kv(caps, p, r))
        }
        "attention" | "attention_rows" | "attn_combine" => {
            all(attentions(s, shared), |p, r| paged::attention(caps, p, r))
        }
        "penalize" | "logits_part" | "sample" => {
            let rows = samplings().into_iter().filter(|p| p.shared == shared);
            // `sample` has its own number of lanes, the others have one for both.
            let rows = rows.filter(|p| match s.kernel {
                "sample" => p.lanes == 256,
                _ => p.lanes == 64,
            });
            let usual = if caps.avoid.lanes { 2 * lanes } else { lanes };
            let rows = rows.map(|p| Sampling {
                lanes: if s.kernel == "sample" { usual } else { 64 },
                ..p
            });
            all(rows, |p, r| sampling::case(caps, p, r))
        }
        kernel => unreachable!("{kernel} has no cases of one variant"),
    }
}

/// Short and long, with a window and without, in one chunk and several.
fn attentions(s: &Shader, shared: bool) -> Vec<Attention> {
    // Words of eight dimensions, and heads in a workgroup: the kernel for software devices is made for them.
    let (words, heads) = match s.kernel {
        "attention_rows" => {
            let tail = value(s, "TAIL");
            let most = 8 * value(s, "BLOCKS");
            let most = if value(s, "WHOLE") == 1 { most } else { 3 };
            let words = (1..=most).rev().find(|w| w % 4 == tail);
            (words.unwrap_or(8), value(s, "HEADS"))
        }
        _ => (8, 3),
    };
    let base = Attention {
        hd: 8 * words,
        n_head: 2 * heads,
        n_kv: 2,
        window: 0,
        kv_len: 1,
        chunk: 256,
        tile: 0,
        shared,
        uniform: slot(s, "x") != "x_storage",
        texture: s.kernel == "attention_rows" || slot(s, "kv") == "kv_texture",
    };
    let few = [(1, 0), (33, 8), (257, 0), (300, 70)];
    let mut rows: Vec<Attention> = few
        .iter()
        .map(|&(kv_len, window)| Attention {
            kv_len,
            window,
            ..base
        })
        .collect();
    if s.kernel == "attn_combine" {
        // What comes before it may be any kernel of attention.
        rows.iter_mut().for_each(|p| p.uniform = false);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::params::Mode;

    #[test]
    fn modes_of_a_sweep_are_all_there() {
        let mut rows = Vec::new();
        cases::sweep(&mut rows, PRODUCT);
        for mode in [Mode::Store, Mode::Add, Mode::Silu, Mode::Gelu] {
            assert!(rows.iter().any(|p| p.mode == mode), "{mode:?}");
        }
        assert!(rows.iter().any(|p| p.softcap > 0.0));
    }
}
