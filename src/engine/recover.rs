//! A device that is lost in the middle of an answer: it is opened anew, the weights are loaded again, the
//! sequences fed again as they are needed, and the answers go on with the same tokens. At most twice a
//! minute: what is lost more often is better told than hidden.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::load::{Engine, on_device};
use crate::gpu::Gpu;
use crate::plan::Program;
use crate::{Error, Result};

/// Losses within [`WINDOW`] that are made good.
const MOST: usize = 2;
const WINDOW: Duration = Duration::from_secs(60);

/// When the device was lost so far.
#[derive(Debug, Default)]
pub(super) struct Losses(Vec<Instant>);

impl Losses {
    /// Counts one more; whether it may be made good, and how many there were within a minute.
    fn another(&mut self, now: Instant) -> (bool, u32) {
        self.0.retain(|t| now.duration_since(*t) < WINDOW);
        self.0.push(now);
        (self.0.len() <= MOST, self.0.len() as u32)
    }
}

impl Engine {
    /// After an error: if it is the loss of the device, there is a device again, and no sequence is in its KV
    /// cache; every other error, and one loss too many, comes back.
    pub(super) fn recover(&self, error: Error) -> Result<()> {
        let Error::DeviceLost { device, reason, .. } = error else {
            return Err(error);
        };
        let (good, times) = self.losses.borrow_mut().another(Instant::now());
        if !good {
            return Err(Error::DeviceLost {
                device,
                reason,
                times,
            });
        }
        tracing::warn!("device {device} was lost ({reason}); loading again");
        let start = Instant::now();
        // The same context, whatever else has been taken of the memory since.
        let mut o = self.options.clone();
        (o.context, o.largest) = (Some(self.info().context), false);
        let mut scheduler = self.scheduler.borrow_mut();
        // All of the old one goes first: there need not be room for both.
        scheduler.leave();
        let info = |_: &Gpu, _: &Program| self.info().clone();
        let again = Some(&self.again);
        let (new, _) = on_device(&info, &self.model, &o, again, start, &mut |_| ())?;
        *self.gpu.borrow_mut() = Arc::downgrade(&new.program().gpu);
        scheduler.take_seat(new);
        let ms = start.elapsed().as_millis();
        tracing::warn!("device {device} is there again after {ms} ms; the answer goes on");
        Ok(())
    }

    /// Has the device be lost, as drivers have it now and then: for tests.
    pub fn destroy_device(&self) {
        if let Ok(gpu) = self.gpu() {
            gpu.destroy();
        }
    }

    /// Has the device refuse a command, as drivers do now and then: for tests.
    pub fn refuse_command(&self) {
        if let Ok(gpu) = self.gpu() {
            gpu.refuse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_losses_a_minute_are_made_good() {
        let mut losses = Losses::default();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(losses.another(at(0)), (true, 1));
        assert_eq!(losses.another(at(30)), (true, 2));
        assert_eq!(losses.another(at(59)), (false, 3));
        assert_eq!(losses.another(at(118)), (true, 2));
    }
}
