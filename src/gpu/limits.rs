//! What a device is opened with: all its adapter has, or one of two smaller profiles. A device is
//! really asked for these limits and features, so wgpu refuses whatever goes beyond them.
//!
//! | | `adapter` | `browser` | `low` |
//! |---|---|---|---|
//! | storage binding | the adapter's | 128 MiB | 1 MiB |
//! | uniform binding | the adapter's | 64 KiB | 64 KiB |
//! | buffer | the adapter's | 256 MiB | 256 MiB |
//! | texture side, layers | the adapter's | 8192, 256 | 256, 256 |
//! | storage buffers per stage | the adapter's | 8 | 8 |
//! | storage textures per stage | the adapter's | 4 | 4 |
//! | invocations per workgroup | the adapter's | 256 | 256 |
//! | workgroup memory | the adapter's | 16 KiB | 16 KiB |
//! | workgroups per dimension | the adapter's | 65535 | 65535 |
//! | subgroups, timestamps, pipeline cache | where it has them | no | no |
//! | f16, immediates | no | no | no |
//!
//! `browser` is what every WebGPU device has without being asked for more. A texture of `low` is no
//! larger than its storage binding, so weights are cut there on every kind of device.

use std::fmt;
use std::str::FromStr;

/// Which limits and optional features a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limits {
    /// All the adapter has.
    #[default]
    Adapter,
    /// WebGPU's default limits, no optional feature.
    Browser,
    /// `Browser` with storage bindings and textures of 1 MiB.
    Low,
}

impl Limits {
    /// All profiles.
    pub const ALL: [Limits; 3] = [Limits::Adapter, Limits::Browser, Limits::Low];

    /// `adapter`, `browser`, `low`.
    pub fn name(self) -> &'static str {
        match self {
            Limits::Adapter => "adapter",
            Limits::Browser => "browser",
            Limits::Low => "low",
        }
    }

    /// What to ask an adapter for.
    pub(super) fn of(self, adapter: &wgpu::Adapter) -> (wgpu::Limits, wgpu::Features) {
        let features = wgpu::Features::SUBGROUP
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::PIPELINE_CACHE;
        let none = wgpu::Features::empty();
        match self {
            Limits::Adapter => (adapter.limits(), adapter.features() & features),
            Limits::Browser => (wgpu::Limits::defaults(), none),
            Limits::Low => {
                let low = wgpu::Limits {
                    max_storage_buffer_binding_size: 1 << 20,
                    max_texture_dimension_1d: 256,
                    max_texture_dimension_2d: 256,
                    max_texture_dimension_3d: 256,
                    ..wgpu::Limits::defaults()
                };
                (low, none)
            }
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Limits {
    type Err = String;

    /// A profile by name; an empty name, as of a variable set to nothing, is `adapter`.
    fn from_str(s: &str) -> Result<Limits, String> {
        let named = Limits::ALL.into_iter().find(|l| l.name() == s);
        named
            .or(s.is_empty().then_some(Limits::Adapter))
            .ok_or_else(|| {
                let known = Limits::ALL.map(Limits::name).join(", ");
                format!("there is no limits profile '{s}'; there are {known}")
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_by_name() {
        for l in Limits::ALL {
            assert_eq!(l.to_string().parse(), Ok(l));
        }
        assert_eq!("".parse(), Ok(Limits::Adapter));
        let e = "high".parse::<Limits>().unwrap_err();
        assert!(
            e.contains("'high'") && e.contains("adapter, browser, low"),
            "{e}"
        );
    }
}
