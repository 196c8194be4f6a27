//! What a device says of itself behind our back: that it is lost, or that it refused a command. Both are
//! kept until the next wait, which turns them into errors.

use std::sync::{Arc, Mutex};

use crate::Error;

/// The first thing that went wrong, if anything did.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lost: Option<String>,
    rejects: Option<String>,
}

impl Trouble {
    /// Listens to a device.
    pub fn of(device: &wgpu::Device) -> Trouble {
        let trouble = Trouble::default();
        let (lost, rejects) = (trouble.clone(), trouble.clone());
        device.set_device_lost_callback(move |reason, message| {
            let why = match message.trim() {
                "" => format!("{reason:?}"),
                message => message.to_string(),
            };
            lost.state().lost.get_or_insert(why);
        });
        // Without this wgpu ends the program.
        device.on_uncaptured_error(Arc::new(move |e: wgpu::Error| {
            rejects.state().rejects.get_or_insert(e.to_string());
        }));
        trouble
    }

    /// The error to report, if there is one. A device that is lost stays lost.
    pub fn error(&self, device: &str) -> Option<Error> {
        let mut state = self.state();
        let device = device.to_string();
        if let Some(reason) = state.lost.clone() {
            return Some(Error::DeviceLost {
                device,
                reason,
                times: 1,
            });
        }
        let reason = state.rejects.take()?;
        Some(Error::DeviceRejects { device, reason })
    }

    /// A command that was refused is no longer told.
    pub fn forgive(&self) {
        self.state().rejects = None;
    }

    /// Whoever panicked while holding the lock left texts behind, and texts are all there is.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}
