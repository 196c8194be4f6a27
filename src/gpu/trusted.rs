//! The one place that makes shader modules. Ours are validated, bounded and compared with their
//! twins, so the checks that wgpu would inject (loop bounding alone can cost 100x) are turned off.

/// A module without injected checks.
#[allow(unsafe_code)]
pub(super) fn module(device: &wgpu::Device, label: &str, text: &str) -> wgpu::ShaderModule {
    let desc = wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source: wgpu::ShaderSource::Wgsl(text.into()),
    };
    // SAFETY: only shaders embedded in this crate come here. Each indexes within the buffers that
    // the plan binds (sizes are derived from the same `Sizes`), has no endless loop and no division
    // by zero; tests run each with guard words around its outputs.
    unsafe { device.create_shader_module_trusted(desc, wgpu::ShaderRuntimeChecks::unchecked()) }
}
