//! Faults on request: a chosen kernel variant gives wrong numbers, always or in one of K dispatches, so that
//! tests can prove that they are found. What a driver gets wrong now and then looks just like it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::device::Gpu;
use super::{pipelines, program::Resource};
use crate::Result;
use crate::kernel::Shader;
use crate::plan::Step;

/// Which variant is wrong, and how often.
#[derive(Debug)]
pub struct Fault {
    /// A part of the variant's name (`matvec_rows`, `x_spread`, `sample[group_subgroup`).
    pattern: String,
    /// It is wrong in one of so many dispatches.
    every: u64,
    calls: AtomicU64,
}

impl std::str::FromStr for Fault {
    type Err = String;

    /// `matvec_rows`: always wrong; `matvec_rows/20`: each twentieth time.
    fn from_str(s: &str) -> Result<Fault, String> {
        let (pattern, every) = match s.rsplit_once('/') {
            Some((pattern, n)) => match n.parse() {
                Ok(n) if n > 0 => (pattern, n),
                _ => return Err(format!("{n} is no number of dispatches, 1 or more")),
            },
            None => (s, 1),
        };
        if pattern.is_empty() {
            return Err("name a part of a variant, such as matvec_rows or x_spread/20".into());
        }
        Ok(Fault {
            pattern: pattern.into(),
            every,
            calls: AtomicU64::new(0),
        })
    }
}

impl Fault {
    /// Whether it concerns a variant.
    pub fn hits(&self, shader: &Shader) -> bool {
        shader.to_string().contains(&self.pattern)
    }

    /// Whether the dispatch that is being recorded is to be wrong.
    pub fn strikes(&self) -> bool {
        (self.calls.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.every)
    }
}

/// What is dispatched behind a step to spoil its result.
pub struct Spoil {
    pub pipeline: wgpu::ComputePipeline,
    pub group: wgpu::BindGroup,
}

/// The spoiling of a step's first result that is a buffer, if there is a fault for its variant.
pub fn spoil(gpu: &Gpu, step: &Step, resources: &[Resource]) -> Result<Option<Spoil>> {
    if !gpu.fault.as_ref().is_some_and(|f| f.hits(&step.shader)) {
        return Ok(None);
    }
    let writes = step.kernel().writes;
    let written = step.binds.iter().filter(|b| writes.contains(&b.name));
    let mut buffers = written.filter_map(|b| match &resources[b.buf] {
        Resource::Buffer(buffer) => Some((buffer, b.offset)),
        Resource::Texture { .. } => None,
    });
    let Some((buffer, offset)) = buffers.next() else {
        return Ok(None);
    };
    let shader = Shader {
        kernel: "spoil",
        slots: vec![],
        overrides: vec![],
    };
    let made = pipelines::make(gpu, &shader)?;
    let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("spoil"),
        layout: &made.layout,
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer,
                offset,
                size: std::num::NonZeroU64::new(16),
            }),
        }],
    });
    Ok(Some(Spoil {
        pipeline: made.pipeline,
        group,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_as_often_as_it_says() {
        let fault: Fault = "x_spread/3".parse().unwrap();
        let struck: Vec<bool> = (0..6).map(|_| fault.strikes()).collect();
        assert_eq!(struck, [false, false, true, false, false, true]);
        let always: Fault = "glu".parse().unwrap();
        assert!(always.strikes() && always.strikes());
        for bad in ["", "/3", "glu/0", "glu/often"] {
            assert!(bad.parse::<Fault>().is_err(), "{bad:?}");
        }
        let shader = |kernel| Shader {
            kernel,
            slots: vec![("x", "slots/x_spread.wgsl")],
            overrides: vec![],
        };
        assert!(fault.hits(&shader("matvec_rows")) && !always.hits(&shader("matvec_rows")));
    }
}
