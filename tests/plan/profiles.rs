//! Plans for devices opened with small limits (`--limits`): they fit bindings and textures, and what wgpu
//! would refuse of their shaders is found without a device.

use std::collections::{BTreeMap, BTreeSet};

use naga::AddressSpace;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use tokstep::kernel::Caps;
use tokstep::plan::sizes::Wish;
use tokstep::plan::{self, Sizes, Step};

use super::{check, gpu, model, models, steps, tiny};

/// Devices opened with the limits of a browser: there are no subgroups, and a workgroup is small.
pub fn browser(software: bool) -> Caps {
    Caps {
        subgroups: false,
        subgroup_min: 1,
        subgroup_max: 1,
        software,
        max_texture: 8192,
        max_layers: 256,
        max_lanes: 256,
        ..gpu()
    }
}

/// The same with bindings and textures of 1 MiB.
pub fn low(software: bool) -> Caps {
    Caps {
        max_storage: 1 << 20,
        max_texture: 256,
        ..browser(software)
    }
}

/// Small limits: every plan fits them, with narrower prompt chunks where it must.
#[test]
fn every_plan_fits_the_profiles() {
    let (mut seen, mut composed) = (BTreeMap::new(), BTreeSet::new());
    for path in models() {
        let m = model(&path);
        for caps in [browser(true), browser(false), low(true), low(false)] {
            for slots in [1, 3] {
                let wish = Wish {
                    context: Some(600),
                    slots,
                    chunk: None,
                };
                let p = plan::fit(&m, &caps, wish).unwrap_or_else(|e| panic!("{e}"));
                check(&p, &caps, &mut seen);
                if caps.max_storage >= 128 << 20 {
                    assert_eq!(p.sizes, Sizes::fit(&m.hyper, &caps, wish).unwrap());
                }
                for s in steps(&p) {
                    if composed.insert(s.shader.to_string()) {
                        floor(s, &caps);
                    }
                }
            }
        }
    }
}

/// What wgpu refuses of a step on a device of the browser's limits: lanes, workgroup memory, and the
/// number of buffers and textures, for the very overrides of the step.
fn floor(s: &Step, caps: &Caps) {
    let text = s.shader.compose().text;
    let m = naga::front::wgsl::parse_str(&text).unwrap_or_else(|e| panic!("{}: {e}", s.shader));
    let image = |ty| matches!(m.types[ty].inner, naga::TypeInner::Image { .. });
    let (mut buffers, mut textures) = (0, 0);
    for (_, v) in m.global_variables.iter() {
        buffers += usize::from(matches!(v.space, AddressSpace::Storage { .. }));
        textures += usize::from(image(v.ty));
    }
    assert!(buffers <= 8 && textures <= 4, "{}: bindings", s.shader);
    let info = Validator::new(
        ValidationFlags::all(),
        Capabilities::SHADER_FLOAT16_IN_FLOAT32,
    )
    .validate(&m)
    .unwrap_or_else(|e| panic!("{}: {}", s.shader, e.emit_to_string(&text)));
    let constants = s.shader.overrides.iter();
    let constants = constants.map(|(n, v)| (n.to_string(), f64::from(*v)));
    let main = Some((naga::ShaderStage::Compute, "main"));
    let constants = constants.collect();
    let (m, _) = naga::back::pipeline_constants::process_overrides(&m, &info, main, &constants)
        .unwrap_or_else(|e| panic!("{}: {e}", s.shader));
    let lanes: u32 = m.entry_points[0].workgroup_size.iter().product();
    assert!(lanes <= caps.max_lanes, "{}: {lanes} lanes", s.shader);
    let mut layout = naga::proc::Layouter::default();
    layout.update(m.to_ctx()).expect("layout");
    let shared = m.global_variables.iter();
    let shared = shared.filter(|(_, v)| v.space == AddressSpace::WorkGroup);
    let bytes: u32 = shared
        .map(|(_, v)| layout[v.ty].size.next_multiple_of(16))
        .sum();
    assert!(
        bytes <= 16 << 10,
        "{}: {bytes} of workgroup memory",
        s.shader
    );
}

/// A prompt chunk gets narrower until activations fit a binding; what does not fit then is an error that
/// names it and the limit.
#[test]
fn chunks_get_narrower_where_bindings_are_small() {
    let m = tiny("llama_q4_k");
    let mut widths = BTreeSet::new();
    for software in [true, false] {
        for limit in [
            1 << 20,
            150_000,
            105_000,
            85_000,
            76_000,
            50_000,
            25_000,
            13_000,
            1000,
        ] {
            let caps = Caps {
                max_storage: limit,
                max_uniform: if software { 64 << 10 } else { 0 },
                ..low(software)
            };
            let wish = Wish {
                context: Some(64),
                slots: 1,
                chunk: None,
            };
            match plan::fit(&m, &caps, wish) {
                Ok(p) => {
                    check(&p, &caps, &mut BTreeMap::new());
                    println!("{limit}: {}", p.sizes.chunk);
                    widths.insert((software, p.sizes.chunk));
                }
                Err(e) => {
                    let e = e.to_string();
                    println!("{limit}: {e}");
                    assert!(limit <= 76_000, "{limit}: {e}");
                    assert!(e.contains(&limit.to_string()), "{e}");
                }
            }
        }
    }
    assert!(widths.len() >= 4, "{widths:?}");
}
