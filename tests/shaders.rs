//! Every kernel with every filling of its slots, without a GPU: naga parses and validates it, its
//! `Params` and bindings equal the kernel table, and it translates to SPIR-V, MSL and HLSL.

use std::collections::BTreeSet;

use naga::back::{self, PipelineConstants};
use naga::valid::{Capabilities, ModuleInfo, SubgroupOperationSet, ValidationFlags, Validator};
use naga::{AddressSpace, Module, ShaderStage, TypeInner};
use tokstep::kernel::params::{Params, Slot};
use tokstep::kernel::{self, Kernel, Shader, shader};

/// Fills each `#use` of the main file that names no file with each file that can fill it:
/// `slots/<slot>_*.wgsl` or `<slot>/*.wgsl`. A second weight type is the one behind the first in the list:
/// so each comes once in either place, and not each with each.
fn variants(k: &'static Kernel) -> Vec<Shader> {
    let has = |name: &str| shader::FILES.iter().any(|(n, _)| *n == name);
    let main = format!("{}.wgsl", k.name);
    let (_, text) = shader::FILES
        .iter()
        .find(|(n, _)| *n == main)
        .expect("kernel has a file");
    let mut all = vec![Shader {
        kernel: k.name,
        slots: vec![],
        overrides: vec![],
    }];
    for slot in text
        .lines()
        .filter_map(|l| l.strip_prefix("#use "))
        .map(str::trim)
    {
        if has(&format!("{slot}.wgsl")) || has(&format!("slots/{slot}.wgsl")) {
            continue;
        }
        let (a, b) = (format!("slots/{slot}_"), format!("{slot}/"));
        let files: Vec<_> = shader::FILES
            .iter()
            .map(|(n, _)| *n)
            .filter(|n| n.starts_with(&a) || n.starts_with(&b))
            .collect();
        assert!(!files.is_empty(), "{}: no file fills {slot}", k.name);
        all = all
            .iter()
            .flat_map(|s| {
                files.iter().map(|f| {
                    let mut s = s.clone();
                    s.slots.push((slot, f));
                    s
                })
            })
            .collect();
    }
    let second = text
        .lines()
        .any(|l| l.starts_with("#again") && l.contains("quant2"));
    for s in all.iter_mut().filter(|_| second) {
        let quants = shader::FILES.iter().map(|(n, _)| *n);
        let quants: Vec<_> = quants.filter(|n| n.starts_with("quant/")).collect();
        let first = s.slots.iter().find(|(slot, _)| *slot == "quant");
        let first = first.and_then(|(_, f)| quants.iter().position(|q| q == f));
        let next = (first.expect("a weight type") + 1) % quants.len();
        s.slots.push(("quant2", quants[next]));
    }
    all
}

fn is_subgroup(s: &Shader) -> bool {
    s.slots
        .iter()
        .any(|(_, f)| f.ends_with("_subgroup.wgsl") || f.ends_with("_spread.wgsl"))
        || s.kernel == "attention_rows" // only for devices that have them
}

/// Parses and validates; an error names the file and line a person edits.
fn module(s: &Shader) -> (Module, ModuleInfo) {
    let source = s.compose();
    let m = naga::front::wgsl::parse_str(&source.text).unwrap_or_else(|e| {
        let line = e
            .location(&source.text)
            .map_or(0, |l| l.line_number as usize);
        panic!(
            "{s}: {:?}: {}",
            source.origin(line),
            e.emit_to_string(&source.text)
        )
    });
    // Subgroups are admitted only where a file of that name asks for them.
    let mut caps = Capabilities::SHADER_FLOAT16_IN_FLOAT32; // pack2x16float, part of plain WGSL
    caps.set(Capabilities::SUBGROUP, is_subgroup(s));
    let info = Validator::new(ValidationFlags::all(), caps)
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(SubgroupOperationSet::all())
        .validate(&m)
        .unwrap_or_else(|e| panic!("{s}: {}", e.emit_to_string(&source.text)));
    (m, info)
}

fn fields_of(m: &Module, ty: naga::Handle<naga::Type>) -> Vec<(String, &'static str, u32)> {
    let TypeInner::Struct { members, .. } = &m.types[ty].inner else {
        panic!("not a struct")
    };
    let ty = |t| match m.types[t].inner {
        TypeInner::Scalar(naga::Scalar::U32) => "u32",
        TypeInner::Scalar(naga::Scalar::F32) => "f32",
        _ => "?",
    };
    members
        .iter()
        .map(|f| (f.name.clone().unwrap_or_default(), ty(f.ty), f.offset))
        .collect()
}

fn expected(fields: &[(&'static str, &'static str)]) -> Vec<(String, &'static str, u32)> {
    fields
        .iter()
        .enumerate()
        .map(|(i, (n, t))| (n.to_string(), *t, 4 * i as u32))
        .collect()
}

/// Whether a variable is an image that is written.
fn stores_texels(m: &Module, ty: naga::Handle<naga::Type>) -> bool {
    match m.types[ty].inner {
        TypeInner::Image {
            class: naga::ImageClass::Storage { access, .. },
            ..
        } => access.contains(naga::StorageAccess::STORE),
        _ => false,
    }
}

/// Compares `Params`, `Slot` and the bindings with the kernel table.
fn interface(k: &Kernel, s: &Shader, m: &Module) {
    let (mut reads, mut writes, mut numbers) = (vec![], vec![], vec![]);
    for (_, v) in m.global_variables.iter() {
        let Some(b) = &v.binding else { continue };
        assert_eq!(b.group, 0, "{s}");
        numbers.push(b.binding);
        let name = v.name.as_deref().unwrap_or_default();
        match v.space {
            AddressSpace::Uniform if name == "P" => {
                assert_eq!(b.binding, 0, "{s}: P");
                assert_eq!(fields_of(m, v.ty), expected(k.fields), "{s}: Params");
            }
            AddressSpace::Storage { access } if access.contains(naga::StorageAccess::STORE) => {
                writes.push(name)
            }
            _ if stores_texels(m, v.ty) => writes.push(name),
            _ => reads.push(name),
        }
    }
    // Some bindings come with the filling of a slot.
    let known = |found: &[&str], all: &[&str]| found.iter().all(|b| all.contains(b));
    assert!(known(&reads, k.reads), "{s}: reads {reads:?}");
    assert!(known(&writes, k.writes), "{s}: writes {writes:?}");
    let n = numbers.len();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), n, "{s}: two bindings share a number");
    assert!(n <= 9, "{s}: browsers give 8 storage buffers");
    if let Some((h, _)) = m
        .types
        .iter()
        .find(|(_, t)| t.name.as_deref() == Some("Slot"))
    {
        assert_eq!(fields_of(m, h), expected(Slot::FIELDS), "{s}: Slot");
    }
}

/// Bytes of workgroup memory, overrides resolved.
fn workgroup_bytes(m: &Module) -> u32 {
    let mut layout = naga::proc::Layouter::default();
    layout.update(m.to_ctx()).expect("layout");
    m.global_variables
        .iter()
        .filter(|(_, v)| v.space == AddressSpace::WorkGroup)
        .map(|(_, v)| layout[v.ty].size.next_multiple_of(16))
        .sum()
}

fn translate(s: &Shader, m: &Module, info: &ModuleInfo) {
    let main = Some((ShaderStage::Compute, "main"));
    let (m, info) =
        back::pipeline_constants::process_overrides(m, info, main, &PipelineConstants::default())
            .unwrap_or_else(|e| panic!("{s}: overrides: {e}"));
    assert!(
        workgroup_bytes(&m) <= 16 << 10,
        "{s}: {} bytes of workgroup memory",
        workgroup_bytes(&m)
    );
    let spv = back::spv::Options {
        lang_version: (1, 3),
        ..Default::default()
    };
    back::spv::write_vec(&m, &info, &spv, None).unwrap_or_else(|e| panic!("{s}: SPIR-V: {e}"));
    let msl = back::msl::Options {
        lang_version: (2, 4),
        ..Default::default()
    };
    back::msl::write_string(&m, &info, &msl, &Default::default())
        .unwrap_or_else(|e| panic!("{s}: MSL: {e}"));
    let hlsl = back::hlsl::Options {
        shader_model: back::hlsl::ShaderModel::V6_0,
        ..Default::default()
    };
    let pipeline = back::hlsl::PipelineOptions::default();
    let mut text = String::new();
    back::hlsl::Writer::new(&mut text, &hlsl, &pipeline)
        .write(&m, &info, None)
        .unwrap_or_else(|e| panic!("{s}: HLSL: {e}"));
}

fn check(names: &[&str]) {
    for k in kernel::ALL.iter().filter(|k| names.contains(&k.name)) {
        let all = variants(k);
        let mut bound = BTreeSet::new();
        for s in &all {
            let (m, info) = module(s);
            interface(k, s, &m);
            let names = m
                .global_variables
                .iter()
                .filter(|(_, v)| v.binding.is_some());
            bound.extend(names.filter_map(|(_, v)| v.name.clone()));
            translate(s, &m, &info);
        }
        // What no filling binds has no business in the table.
        let table = k.reads.iter().chain(k.writes).chain(&["P"]);
        assert_eq!(bound, table.map(|n| n.to_string()).collect(), "{}", k.name);
        println!("{}: {} variants", k.name, all.len());
    }
}

const MATRIX: [&str; 4] = ["get_rows", "matvec", "matvec_rows", "matmul"];
const PAIRS: [&str; 2] = ["matvec2", "matvec_rows2"];

#[test]
fn matrix_kernels() {
    check(&MATRIX);
}

#[test]
fn kernels_of_two_matrices() {
    check(&PAIRS);
}

#[test]
fn other_kernels() {
    check(
        &kernel::ALL
            .iter()
            .map(|k| k.name)
            .filter(|n| !MATRIX.contains(n) && !PAIRS.contains(n))
            .collect::<Vec<_>>(),
    );
}

/// A browser knows no subgroups here: each slot must be fillable without them.
#[test]
fn every_kernel_has_a_variant_without_subgroups() {
    for k in kernel::ALL.iter().filter(|k| k.name != "attention_rows") {
        assert!(variants(k).iter().any(|s| !is_subgroup(s)), "{}", k.name);
    }
}
