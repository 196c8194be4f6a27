//! Which devices there are, what they can do, and which one is picked and why.

use crate::{Error, Result};

/// One adapter, as `tokstep devices` shows it.
#[derive(Clone, Debug)]
pub struct AdapterInfo {
    /// Number to give to `--device`.
    pub index: usize,
    /// The driver's name for the device.
    pub name: String,
    /// `vulkan`, `metal`, `dx12`.
    pub backend: String,
    /// `discrete GPU`, `integrated GPU`, `virtual GPU`, `software`, `other`.
    pub kind: &'static str,
    /// Driver name and version.
    pub driver: String,
    /// Chosen when nothing else is asked for.
    pub picked: bool,
    /// Why it is picked, or not.
    pub why: String,
    /// Limits that matter here.
    pub limits: Vec<(&'static str, u64)>,
    /// Optional features that matter here and are there.
    pub features: Vec<&'static str>,
}

/// An instance without debug layers: validation of indirect calls alone triples their cost.
pub(super) fn instance() -> wgpu::Instance {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    desc.flags = wgpu::InstanceFlags::empty();
    wgpu::Instance::new(desc)
}

pub(super) fn list(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()))
}

fn kind(t: wgpu::DeviceType) -> (u32, &'static str) {
    match t {
        wgpu::DeviceType::DiscreteGpu => (4, "discrete GPU"),
        wgpu::DeviceType::IntegratedGpu => (3, "integrated GPU"),
        wgpu::DeviceType::VirtualGpu => (2, "virtual GPU"),
        wgpu::DeviceType::Cpu => (1, "software"),
        wgpu::DeviceType::Other => (0, "other"),
    }
}

/// Number of the adapter to use: the one asked for by number or by a part of its name, else the
/// first of the fastest kind.
pub(super) fn pick(all: &[wgpu::Adapter], wish: Option<&str>) -> Result<usize> {
    // An empty wish is an environment variable that was set to nothing.
    let wish = wish.filter(|w| !w.is_empty());
    let infos: Vec<wgpu::AdapterInfo> = all.iter().map(wgpu::Adapter::get_info).collect();
    if infos.is_empty() {
        return Err(Error::NoAdapter);
    }
    let Some(wish) = wish else {
        let best = infos.iter().map(|i| kind(i.device_type).0).max();
        return Ok(infos
            .iter()
            .position(|i| Some(kind(i.device_type).0) == best)
            .unwrap_or(0));
    };
    let by_number = wish.parse::<usize>().ok().filter(|i| *i < infos.len());
    let by_name = || {
        infos
            .iter()
            .position(|i| i.name.to_lowercase().contains(&wish.to_lowercase()))
    };
    by_number
        .or_else(by_name)
        .ok_or_else(|| Error::NoSuchDevice {
            wish: wish.to_string(),
            known: infos.iter().map(|i| i.name.clone()).collect(),
        })
}

/// Every adapter of this machine.
pub fn adapters(wish: Option<&str>) -> Result<Vec<AdapterInfo>> {
    let wish = wish.filter(|w| !w.is_empty());
    let instance = instance();
    let all = list(&instance);
    let picked = pick(&all, wish)?;
    Ok(all
        .iter()
        .enumerate()
        .map(|(index, a)| {
            let (i, l, f) = (a.get_info(), a.limits(), a.features());
            let has = |x: wgpu::Features, name: &'static str| f.contains(x).then_some(name);
            AdapterInfo {
                index,
                backend: i.backend.to_str().to_string(),
                kind: kind(i.device_type).1,
                driver: format!("{} {}", i.driver, i.driver_info).trim().to_string(),
                picked: index == picked,
                why: match (index == picked, wish) {
                    (true, Some(w)) => format!("asked for as '{w}'"),
                    (true, None) => {
                        format!("the first {} here, the fastest kind", kind(i.device_type).1)
                    }
                    (false, Some(_)) => "another one was asked for".into(),
                    (false, None) => {
                        "a faster kind, or one of the same kind before it, is there".into()
                    }
                },
                limits: vec![
                    ("storage binding (bytes)", l.max_storage_buffer_binding_size),
                    ("buffer (bytes)", l.max_buffer_size),
                    ("uniform binding (bytes)", l.max_uniform_buffer_binding_size),
                    (
                        "workgroup memory (bytes)",
                        l.max_compute_workgroup_storage_size.into(),
                    ),
                    (
                        "workgroup invocations",
                        l.max_compute_invocations_per_workgroup.into(),
                    ),
                    (
                        "storage buffers per stage",
                        l.max_storage_buffers_per_shader_stage.into(),
                    ),
                    ("texture side (texels)", l.max_texture_dimension_2d.into()),
                    ("subgroup size, smallest", i.subgroup_min_size.into()),
                    ("subgroup size, largest", i.subgroup_max_size.into()),
                ],
                features: [
                    has(wgpu::Features::SUBGROUP, "subgroups"),
                    has(wgpu::Features::SHADER_F16, "f16"),
                    has(wgpu::Features::TIMESTAMP_QUERY, "timestamps"),
                    has(wgpu::Features::IMMEDIATES, "immediates"),
                ]
                .into_iter()
                .flatten()
                .collect(),
                name: i.name,
            }
        })
        .collect())
}
