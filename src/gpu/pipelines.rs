//! Pipelines by shader identity. Each is made inside an error scope that names it; a compile error
//! points at the file and line a person edits.

use std::collections::HashMap;

use super::device::{Gpu, add};
use super::trusted;
use crate::kernel::Shader;
use crate::{Error, Result};

/// A pipeline and the binding number of each variable of its shader.
pub struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
    /// (variable, binding, is a uniform)
    pub bindings: Vec<(String, u32, bool)>,
}

/// All pipelines of a program.
#[derive(Default)]
pub struct Pipelines {
    made: HashMap<Shader, usize>,
    all: Vec<Pipeline>,
}

impl Pipelines {
    /// The pipeline of a shader, made on first use; its number.
    pub fn get(&mut self, gpu: &Gpu, shader: &Shader) -> Result<usize> {
        if let Some(i) = self.made.get(shader) {
            return Ok(*i);
        }
        self.all.push(make(gpu, shader)?);
        self.made.insert(shader.clone(), self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }
}

impl std::ops::Index<usize> for Pipelines {
    type Output = Pipeline;
    fn index(&self, i: usize) -> &Pipeline {
        &self.all[i]
    }
}

fn make(gpu: &Gpu, shader: &Shader) -> Result<Pipeline> {
    let source = shader.compose();
    let fail = |line: usize, message: String| {
        let (file, line) = source.origin(line);
        Error::Shader {
            shader: shader.to_string(),
            file,
            line,
            message,
        }
    };
    let parsed = naga::front::wgsl::parse_str(&source.text).map_err(|e| {
        let line = e
            .location(&source.text)
            .map_or(0, |l| l.line_number as usize);
        fail(line, e.emit_to_string(&source.text))
    })?;
    let bindings = parsed
        .global_variables
        .iter()
        .filter_map(|(_, v)| {
            let b = v.binding.as_ref()?;
            Some((
                v.name.clone().unwrap_or_default(),
                b.binding,
                v.space == naga::AddressSpace::Uniform,
            ))
        })
        .collect();
    let label = shader.to_string();
    let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
    let module = trusted::module(&gpu.device, &label, &source.text);
    let constants: Vec<(&str, f64)> = shader
        .overrides
        .iter()
        .map(|(n, v)| (*n, f64::from(*v)))
        .collect();
    let pipeline = gpu
        .device
        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&label),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
    if let Some(e) = pollster::block_on(scope.pop()) {
        return Err(fail(0, e.to_string()));
    }
    add(&gpu.counts.pipelines, 1);
    Ok(Pipeline {
        layout: pipeline.get_bind_group_layout(0),
        pipeline,
        bindings,
    })
}
