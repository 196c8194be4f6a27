//! Pipelines by shader identity, made on all cores. Each is made inside an error scope that names
//! it; a compile error points at the file and line a person edits.

use std::collections::HashMap;

use rayon::prelude::*;

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
pub struct Pipelines {
    numbers: HashMap<Shader, usize>,
    all: Vec<Pipeline>,
}

impl Pipelines {
    /// Makes the pipeline of every shader once, however often it is named.
    pub fn make<'a>(gpu: &Gpu, shaders: impl Iterator<Item = &'a Shader>) -> Result<Pipelines> {
        let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
        for shader in shaders {
            numbers.entry(shader.clone()).or_insert_with(|| {
                distinct.push(shader);
                distinct.len() - 1
            });
        }
        let all = distinct.par_iter().map(|shader| make(gpu, shader));
        Ok(Pipelines {
            all: all.collect::<Result<Vec<_>>>()?,
            numbers,
        })
    }

    /// The number of a shader's pipeline.
    pub fn number(&self, shader: &Shader) -> usize {
        self.numbers[shader]
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

/// One pipeline.
pub fn make(gpu: &Gpu, shader: &Shader) -> Result<Pipeline> {
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
    let constants: Vec<(&str, f64)> = shader
        .overrides
        .iter()
        .map(|(n, v)| (*n, f64::from(*v)))
        .collect();
    let entry = gpu.fault.as_ref().map_or("main", |f| f.entry(shader));
    let compile = |source: wgpu::ShaderSource<'_>| {
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
        // What a driver's own compiler does not take.
        let driver = gpu.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let module = trusted::module(&gpu.device, &label, source);
        let pipeline = gpu
            .device
            .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&label),
                layout: None,
                module: &module,
                entry_point: Some(entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &constants,
                    zero_initialize_workgroup_memory: false,
                },
                cache: gpu.cache.get(),
            });
        let errors = [
            pollster::block_on(driver.pop()),
            pollster::block_on(scope.pop()),
        ];
        match errors.into_iter().flatten().next() {
            None => Ok(pipeline),
            Some(e) => Err(e.to_string()),
        }
    };
    let parsed = wgpu::ShaderSource::Naga(std::borrow::Cow::Owned(parsed));
    let pipeline = compile(parsed).map_err(|e| {
        // What was parsed has no text to show the place in; the text has.
        let text = wgpu::ShaderSource::Wgsl(source.text.as_str().into());
        fail(0, compile(text).err().unwrap_or(e))
    })?;
    add(&gpu.counts.pipelines, 1);
    Ok(Pipeline {
        layout: pipeline.get_bind_group_layout(0),
        pipeline,
        bindings,
    })
}
