//! The one place that makes shader modules and pipeline caches. Our shaders are validated, bounded
//! and compared with their twins, so the checks that wgpu would inject (loop bounding alone can cost
//! 100x) are turned off.

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
