//! The same device once more, after it was lost: not another one that is as good, whose driver, limits and
//! memory nobody asked about. What was counted goes on to be.

use std::sync::Arc;

use super::device::{Counts, Gpu};
use super::host::HostClock;
use crate::{Error, Result};

/// What is left of a device that is gone.
#[derive(Clone, Debug)]
pub struct Again {
    /// Name of the adapter.
    pub name: String,
    /// Maker, model and, where the backend tells, place on the bus.
    which: (u32, u32, String),
    backend: wgpu::Backend,
    /// What was asked of it.
    pub counts: Arc<Counts>,
    /// What the host spent on it.
    pub host: Arc<HostClock>,
}

impl Again {
    pub(super) fn of(info: &wgpu::AdapterInfo) -> Again {
        Again {
            name: info.name.clone(),
            which: (info.vendor, info.device, info.device_pci_bus_id.clone()),
            backend: info.backend,
            counts: Arc::default(),
            host: Arc::default(),
        }
    }

    /// Number of the adapter among those that are there now.
    pub(super) fn pick(&self, all: &[wgpu::AdapterInfo]) -> Result<usize> {
        let same = |i: &wgpu::AdapterInfo| {
            let now = Again::of(i);
            (now.backend, &now.name, &now.which) == (self.backend, &self.name, &self.which)
        };
        all.iter().position(same).ok_or_else(|| Error::DeviceGone {
            device: self.name.clone(),
            known: all.iter().map(|i| i.name.clone()).collect(),
        })
    }
}

impl Gpu {
    /// What to open it again with.
    pub fn again(&self) -> Again {
        self.again.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, device: u32, bus: &str) -> wgpu::AdapterInfo {
        let mut info = wgpu::AdapterInfo::new(wgpu::DeviceType::DiscreteGpu, wgpu::Backend::Vulkan);
        (info.name, info.device) = (name.into(), device);
        info.device_pci_bus_id = bus.into();
        info
    }

    #[test]
    fn the_same_device_is_taken_wherever_it_stands_and_no_other() {
        let (a, b) = (adapter("card", 7, "01:00"), adapter("card", 7, "02:00"));
        let other = adapter("better card", 8, "03:00");
        let again = Again::of(&b);
        assert_eq!(again.pick(&[a.clone(), b.clone()]).unwrap(), 1);
        assert_eq!(again.pick(&[b, other.clone(), a.clone()]).unwrap(), 0);
        let error = again.pick(&[a, other]).unwrap_err().to_string();
        for word in ["card", "better card", "gone"] {
            assert!(error.contains(word), "no {word} in {error}");
        }
    }
}
