//! The one place that makes shader modules and pipeline caches, and that asks Vulkan itself. Our shaders
//! are validated, bounded and compared with their twins, so the checks that wgpu would inject (loop
//! bounding alone can cost 100x) are turned off. How much memory a GPU has is nothing WebGPU tells.

#[cfg(not(target_vendor = "apple"))]
use ash::{ext, vk};

use super::memory::Heap;

/// A module without injected checks.
#[allow(unsafe_code)]
pub(super) fn module(
    device: &wgpu::Device,
    label: &str,
    source: wgpu::ShaderSource<'_>,
) -> wgpu::ShaderModule {
    let desc = wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source,
    };
    // SAFETY: only shaders embedded in this crate come here. Each indexes within the buffers that
    // the plan binds (sizes are derived from the same `Sizes`), has no endless loop and no division
    // by zero; tests run each with guard words around its outputs.
    unsafe { device.create_shader_module_trusted(desc, wgpu::ShaderRuntimeChecks::unchecked()) }
}

/// A pipeline cache, filled with data that came out of one.
#[allow(unsafe_code)]
pub(super) fn pipeline_cache(device: &wgpu::Device, data: Option<&[u8]>) -> wgpu::PipelineCache {
    let desc = wgpu::PipelineCacheDescriptor {
        label: Some("pipelines"),
        data,
        fallback: true,
    };
    // SAFETY: the data was returned by `get_data` and written by us with a checksum, which was right
    // again when it was read; wgpu compares its header with device and driver.
    unsafe { device.create_pipeline_cache(&desc) }
}

/// The kinds of memory of an adapter; `None`: it is not Vulkan's.
#[cfg(not(target_vendor = "apple"))]
#[allow(unsafe_code)]
pub(super) fn heaps(adapter: &wgpu::Adapter) -> Option<Vec<Heap>> {
    // SAFETY: nothing of the adapter is destroyed or changed, it is only asked; the guard keeps it
    // alive as long as what it is asked through.
    let adapter = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let shared = adapter.shared_instance();
    let (instance, device) = (shared.raw_instance(), adapter.raw_physical_device());
    let told = adapter
        .physical_device_capabilities()
        .supports_extension(ext::memory_budget::NAME)
        && shared.instance_api_version() >= vk::API_VERSION_1_1;
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let memory = if told {
        let mut all = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
        // SAFETY: instance and device are alive, see above; instances of 1.1 have the call, and both
        // structures are zeroed ones of the types that their tags name.
        unsafe { instance.get_physical_device_memory_properties2(device, &mut all) };
        all.memory_properties
    } else {
        // SAFETY: instance and device are alive, see above.
        unsafe { instance.get_physical_device_memory_properties(device) }
    };
    let heap = |(i, h): (usize, &vk::MemoryHeap)| Heap {
        bytes: h.size,
        local: h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
        left: told.then(|| budget.heap_budget[i].saturating_sub(budget.heap_usage[i])),
    };
    let heaps = memory.memory_heaps_as_slice().iter().enumerate();
    Some(heaps.map(heap).collect())
}

/// There is no Vulkan here.
#[cfg(target_vendor = "apple")]
pub(super) fn heaps(_: &wgpu::Adapter) -> Option<Vec<Heap>> {
    None
}
