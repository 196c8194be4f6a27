//! Plans without a device: the decode plans of three tiny models as kept texts, the number of
//! dispatches, and what must hold for every plan of every tiny model on every kind of device.
//!
//! After a wanted change: `UPDATE_EXPECT=1 cargo test --test plan`, and read the difference.

#[path = "plan/levers.rs"]
mod levers;
#[path = "plan/profiles.rs"]
mod profiles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use naga::AddressSpace;
use tokstep::gguf::Gguf;
use tokstep::kernel::choose::LEVERS;
use tokstep::kernel::params::MatVec;
use tokstep::kernel::{Caps, Shader};
use tokstep::model::Model;
use tokstep::plan::sizes::Wish;
use tokstep::plan::tuning::candidates;
use tokstep::plan::{self, Plan, Program, Sizes, Step, Tuning};

/// A software device as Mesa's is.
fn software() -> Caps {
    Caps {
        subgroup_min: 8,
        subgroup_max: 8,
        software: true,
        ..gpu()
    }
}

/// A GPU with subgroups.
fn gpu() -> Caps {
    Caps::usual_gpu()
}

/// A GPU as a browser shows it.
fn plain_gpu() -> Caps {
    Caps {
        subgroups: false,
        max_lanes: 256,
        ..gpu()
    }
}

fn models() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/models");
    let files = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<_> = files
        .filter(|p| p.extension().is_some_and(|e| e == "gguf"))
        .collect();
    all.sort();
    all
}

fn tiny(name: &str) -> Model {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/models/{name}.gguf"));
    model(&path)
}

fn model(path: &Path) -> Model {
    let gguf = Gguf::open(path).unwrap_or_else(|e| panic!("{e}"));
    Model::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"))
}

fn build(m: &Model, caps: &Caps, slots: u32) -> Program {
    build_for(m, caps, slots, 600)
}

fn build_for(m: &Model, caps: &Caps, slots: u32, context: u32) -> Program {
    let wish = Wish {
        context: Some(context),
        slots,
        chunk: None,
    };
    let sizes = Sizes::fit(&m.hyper, caps, wish).unwrap_or_else(|e| panic!("{e}"));
    plan::build(m, caps, sizes)
}

fn plans(p: &Program) -> [&Plan; 3] {
    [&p.decode, &p.prefill, &p.logits]
}

fn steps(p: &Program) -> impl Iterator<Item = &Step> {
    plans(p).into_iter().flat_map(|p| p.steps())
}

#[test]
fn decode_plans_are_as_kept() {
    for name in ["llama_q4_k", "gemma3_q8_0", "qwen2_q4_k"] {
        let m = tiny(name);
        for (device, caps) in [("software", software()), ("gpu", gpu())] {
            let p = build(&m, &caps, 1);
            expect_file![format!("cases/plan/{name}.{device}.txt")].assert_eq(&p.show(&p.decode));
        }
    }
}

/// What a plan uses can be tested before it is used, whatever a device must do without.
#[test]
fn every_variant_has_cases() {
    let mut known = BTreeSet::new();
    for path in models() {
        let m = model(&path);
        for caps in [software(), gpu(), plain_gpu()] {
            let levers = LEVERS.iter().map(|l| l.1);
            for lever in std::iter::once(None).chain(levers.map(Some)) {
                let mut other = caps.clone();
                if let Some(lever) = lever {
                    lever(&mut other);
                }
                for slots in [1, 3] {
                    for step in steps(&build(&m, &other, slots)) {
                        if !known.insert((caps.software, caps.subgroups, step.shader.clone())) {
                            continue;
                        }
                        // The device's own caps: a proof does not know what the plan avoids.
                        let cases = tokstep::selftest::for_shader(&caps, &step.shader, &|_| false);
                        let what = format!("{}: {}", path.display(), step.shader);
                        assert!(!cases.is_empty(), "no case: {what}");
                    }
                }
            }
        }
    }
    assert!(known.len() > 100, "{}", known.len());
}

/// Steps of a decode step by layer.
fn per_layer(p: &Program) -> BTreeMap<String, usize> {
    let mut n = BTreeMap::new();
    for s in &p.decode.body {
        if let Some(layer) = s.label.strip_prefix("blk.") {
            let layer = layer.split('.').next().unwrap_or_default();
            *n.entry(layer.to_string()).or_default() += 1;
        }
    }
    n
}

/// A layer takes at most seven dispatches, one with norms behind its branches at most nine, whatever the
/// device and however many sequences decode side by side (up to sixteen; ten on software devices).
#[test]
fn a_layer_is_few_dispatches() {
    for path in models() {
        let m = model(&path);
        let post_norms = m.weights.layers[0].post_ffw_norm.is_some();
        assert_eq!(post_norms, m.hyper.arch == "gemma3");
        let most = if post_norms { 9 } else { 7 };
        for caps in [software(), gpu(), plain_gpu()] {
            // Software devices take more than ten by halves.
            for slots in [1, 3, 8, if caps.software { 10 } else { 16 }] {
                let p = build(&m, &caps, slots);
                let n = per_layer(&p);
                assert_eq!(n.len(), m.hyper.layers.len());
                for (i, l) in m.weights.layers.iter().enumerate() {
                    // Gate and up of different types are a product more, and a step for the activation;
                    // q, k and v that are three matrices, none of the type of the one before, are two products.
                    let three = usize::from(l.qkv.len() == 3);
                    let more = 2 * (l.ffn_gate_up.len() - 1) + three;
                    let first = usize::from(i == 0 && post_norms); // its norm is a step
                    let n = n[&i.to_string()] - more - first;
                    assert!(n <= most, "{}: {n} in layer {i}", path.display());
                }
                // Embedding, product of the output, three of sampling.
                let rest = p.decode.dispatches() - n.values().sum::<usize>();
                assert_eq!(rest, 5, "{}", path.display());
            }
        }
    }
}

/// Names of a shader's bindings but `P`, and whether each is a uniform.
fn bindings(s: &Shader) -> BTreeMap<String, bool> {
    let source = s.compose();
    let module = naga::front::wgsl::parse_str(&source.text)
        .unwrap_or_else(|e| panic!("{s}: {}", e.emit_to_string(&source.text)));
    let bound = module
        .global_variables
        .iter()
        .filter(|(_, v)| v.binding.is_some());
    bound
        .map(|(_, v)| {
            (
                v.name.clone().unwrap_or_default(),
                v.space == AddressSpace::Uniform,
            )
        })
        .filter(|(name, _)| name != "P")
        .collect()
}

/// What a device checks when it makes bind groups, and what kernels rely on.
fn check(p: &Program, caps: &Caps, seen: &mut BTreeMap<String, BTreeMap<String, bool>>) {
    for b in &p.buffers {
        assert!(
            b.bytes > 0 && b.bytes % 16 == 0,
            "{}: {} bytes",
            b.name,
            b.bytes
        );
        if let Some(shift) = b.texture {
            let lines = b.bytes / (16 << shift);
            assert!(
                lines <= u64::from(caps.max_texture),
                "{}: {lines} lines",
                b.name
            );
            assert_eq!(b.bytes % (16 << shift), 0, "{}: whole lines", b.name);
        } else {
            assert!(b.bytes <= caps.max_storage, "{}: {} bytes", b.name, b.bytes);
        }
    }
    for s in steps(p) {
        let what = format!("{} {}", s.shader, s.label);
        let wanted = seen
            .entry(s.shader.to_string())
            .or_insert_with(|| bindings(&s.shader));
        let given: BTreeSet<&str> = s.binds.iter().map(|b| b.name).collect();
        assert_eq!(
            given,
            wanted.keys().map(String::as_str).collect(),
            "{what}: bindings"
        );
        assert_eq!(given.len(), s.binds.len(), "{what}: a name is bound twice");
        // Parameters lie 256 bytes apart in one buffer.
        assert!(
            s.params.len() <= 256,
            "{what}: {} bytes of parameters",
            s.params.len()
        );
        assert_eq!(
            s.params.len(),
            4 * s.kernel().fields.len(),
            "{what}: parameters"
        );
        let writes = |name: &str| s.kernel().writes.contains(&name);
        for b in &s.binds {
            let buffer = &p.buffers[b.buf];
            assert_eq!(b.offset % 256, 0, "{what}: offset of {}", b.name);
            // A uniform binding is always 64 KiB long.
            let least = if wanted[b.name] { 65536 } else { 16 };
            assert!(
                b.offset + least <= buffer.bytes,
                "{what}: {} too short",
                b.name
            );
            assert!(
                buffer.texture.is_none() || ["w", "w2", "kc", "vc"].contains(&b.name),
                "{what}: {}",
                b.name
            );
            let shared = s.binds.iter().filter(|o| o.buf == b.buf).count();
            assert!(
                shared == 1 || !writes(b.name),
                "{what}: {} is also read",
                b.name
            );
        }
        for d in s.grid {
            if let plan::Dim::Fixed(n) = d {
                assert!((1..=caps.max_grid).contains(&n), "{what}: grid of {n}");
            }
        }
    }
}

#[test]
fn every_plan_of_every_tiny_model_can_be_bound() {
    let mut seen = BTreeMap::new();
    for path in models() {
        let m = model(&path);
        for caps in [software(), gpu(), plain_gpu()] {
            for slots in [1, 3] {
                check(&build(&m, &caps, slots), &caps, &mut seen);
            }
        }
    }
}

/// However a product is cut: it can be bound, its lanes are those of the cut, and its grid reaches every
/// row once.
#[test]
fn every_cut_can_be_bound_and_reaches_every_row() {
    let mut seen = BTreeMap::new();
    for name in ["llama_q4_k", "gemma3_q8_0"] {
        let m = tiny(name);
        for caps in [software(), gpu(), plain_gpu()] {
            for slots in [1, 3, if caps.software { 8 } else { 12 }] {
                let usual = build(&m, &caps, slots);
                let shapes: BTreeSet<_> = steps(&usual).filter_map(|s| s.shape).collect();
                assert!(shapes.len() >= 4);
                for shape in shapes {
                    let x_stride = plan::sizes::stride(shape.k);
                    for cut in candidates(&caps, x_stride, shape.cols) {
                        let mut tuning = Tuning::default();
                        tuning.set(shape, cut);
                        let p = plan::build_tuned(&m, &caps, usual.sizes, &tuning);
                        check(&p, &caps, &mut seen);
                        let of_shape: Vec<_> =
                            steps(&p).filter(|s| s.shape == Some(shape)).collect();
                        assert!(!of_shape.is_empty());
                        for s in of_shape {
                            assert_eq!(s.shader.kernel, cut.kernel);
                            let lanes = s.shader.overrides.iter().find(|(n, _)| *n == "WG");
                            if let Some((_, lanes)) = lanes {
                                assert_eq!(*lanes, cut.lanes, "{}", s.label);
                            }
                            let per_group = match (cut.kernel, cut.shared) {
                                ("matmul", _) => 64,
                                ("matvec_rows", _) => 4 * cut.lanes,
                                (_, true) => 4,
                                (_, false) => 4 * (cut.lanes / caps.subgroup_max),
                            };
                            let batch = plan::Batch {
                                cols: (s.first_col + 1).max(*s.live.start()),
                                kv_len: 1,
                            };
                            let groups: u32 = s.grid(batch).unwrap().iter().product();
                            let needed = shape.rows.div_ceil(per_group);
                            assert_eq!(groups, needed, "{}: {cut}", s.label);
                        }
                    }
                }
            }
        }
    }
}

/// Whatever a prompt chunk's length, every product does each of its columns exactly once, and few columns
/// in products for few.
#[test]
fn chunks_of_any_length_have_every_column_once() {
    let mut narrow = BTreeSet::new();
    for path in models() {
        let m = model(&path);
        for caps in [software(), gpu(), plain_gpu()] {
            let p = build(&m, &caps, 1);
            let whole = p.decode.steps().chain(p.logits.steps());
            assert!(whole.into_iter().all(|s| s.live == (1..=u32::MAX)));
            let products = |s: &&Step| s.shader.kernel.starts_with("mat");
            let labels: BTreeSet<&str> = p
                .prefill
                .body
                .iter()
                .filter(products)
                .map(|s| &*s.label)
                .collect();
            for cols in 1..=p.prefill.width {
                let batch = plan::Batch { cols, kv_len: 600 };
                let mut next: BTreeMap<&str, u32> = BTreeMap::new();
                let runs = |s: &&Step| s.grid(batch).is_some();
                for s in p.prefill.body.iter().filter(products).filter(runs) {
                    let what = format!("{} {cols} columns: {}", path.display(), s.label);
                    let params = s.params::<MatVec>();
                    let first = next.entry(&s.label).or_insert(0);
                    assert_eq!(*first, s.first_col, "{what}");
                    let x = s.binds.iter().find(|b| b.name == "x").unwrap();
                    assert_eq!(
                        x.offset,
                        u64::from(16 * params.x_stride * s.first_col),
                        "{what}"
                    );
                    *first += params.n_cols;
                    let columns = s.shader.overrides.iter().find(|o| o.0 == "COLS");
                    let columns = columns.map_or(p.prefill.width, |o| o.1);
                    assert!(params.n_cols <= columns, "{what}");
                    let few: &[u32] = if caps.software { &[1] } else { &[1, 8] };
                    if let Some(n) = few.iter().find(|n| cols <= **n) {
                        assert!(columns <= *n, "{what} in {columns}");
                        narrow.insert((caps.software, s.shader.to_string()));
                    }
                }
                assert_eq!(
                    next.keys().copied().collect::<BTreeSet<_>>(),
                    labels,
                    "{cols}"
                );
                let done = |n: &u32| (cols..=p.prefill.width).contains(n);
                assert!(next.values().all(done), "{cols}: {next:?}");
            }
        }
    }
    assert!(narrow.len() > 4, "{narrow:?}");
}

/// Products alone: with each number of columns every copy is multiplied once, every row and column of it.
#[test]
fn products_alone_are_whole() {
    let mut seen = BTreeMap::new();
    for path in models() {
        let m = model(&path);
        for caps in [software(), gpu(), plain_gpu()] {
            let kinds = plan::alone::kinds(&m);
            assert_eq!(kinds.iter().filter(|k| k.output).count(), 1);
            for kind in kinds {
                let (copies, columns) = (3, [1, 8, 100]);
                let p = plan::alone::program(&m, &caps, &kind, copies, &columns);
                check(&p, &caps, &mut seen);
                let what = format!("{}: {}", path.display(), kind.name);
                for n in columns {
                    let batch = plan::Batch { cols: n, kv_len: 1 };
                    let ran = p.decode.body.iter().filter(|s| s.grid(batch).is_some());
                    let mut done = BTreeMap::new();
                    for s in ran {
                        let params = s.params::<MatVec>();
                        let w = s.binds.iter().find(|b| b.name == "w").unwrap();
                        *done.entry(w.buf).or_insert(0) += params.rows * params.n_cols;
                    }
                    assert_eq!(done.len() % copies, 0, "{what}");
                    let all = copies as u32 * kind.matrix.rows as u32 * n;
                    assert_eq!(done.values().sum::<u32>(), all, "{what} {n}");
                }
            }
        }
    }
}

/// A grid with more workgroups than a dimension may have is folded into another one.
#[test]
fn grids_are_folded() {
    let mut folded = 0;
    for path in models() {
        let m = model(&path);
        let few = Caps {
            max_grid: 16,
            ..gpu()
        };
        let (a, b) = (build(&m, &gpu(), 1), build(&m, &few, 1));
        for (a, b) in a.decode.body.iter().zip(&b.decode.body) {
            let batch = plan::Batch { cols: 1, kv_len: 1 };
            let (a, b) = (a.grid(batch).unwrap(), b.grid(batch).unwrap());
            let n = |g: [u32; 3]| g.iter().product::<u32>();
            if a != b {
                folded += 1;
                assert!(b.iter().all(|d| *d <= 16), "{b:?}");
                assert!((n(a)..n(a) + 16).contains(&n(b)), "{a:?} as {b:?}");
            }
        }
    }
    assert!(folded > 0, "no matrix was large enough");
}

/// Matrices larger than a binding are split by rows, and every row is in one shard.
#[test]
fn matrices_are_sharded() {
    let mut seen = BTreeMap::new();
    let mut sharded = 0;
    for path in models() {
        let m = model(&path);
        let small = Caps {
            max_storage: 48 << 10,
            ..gpu()
        };
        let p = build_for(&m, &small, 1, 64);
        // Activations of a tiny model are larger than its matrices: they get a device they fit.
        check(&p, &gpu(), &mut seen);
        for matrix in m.weights.matrices() {
            let mut next = 0;
            for b in p.buffers.iter().filter(|b| b.name == matrix.label) {
                let plan::Init::Rows { first, rows, .. } = b.init else {
                    panic!("{} is no matrix", b.name)
                };
                assert!(
                    b.bytes <= small.max_storage,
                    "{}: {} bytes",
                    b.name,
                    b.bytes
                );
                assert_eq!(first, next, "{}", b.name);
                sharded += usize::from(first > 0);
                next += rows;
            }
            assert_eq!(next, matrix.rows, "{}", matrix.label);
        }
    }
    assert!(sharded > 0, "no matrix was large enough");
}
