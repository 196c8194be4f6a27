//! What the host spends on driving the device: wall and CPU time of recording, submitting, waiting
//! and reading back, and how long the queue stands empty. Always counted: a few clock reads a submit.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time of one kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Calls.
    pub calls: u64,
    /// Nanoseconds between begin and end.
    pub wall_ns: u64,
    /// Nanoseconds of CPU time of the calling thread; wall time where a system does not tell it.
    pub cpu_ns: u64,
}

impl Spent {
    fn add(&mut self, from: Moment) {
        self.calls += 1;
        self.wall_ns += from.wall.elapsed().as_nanos() as u64;
        self.cpu_ns += match (from.cpu, thread_time()) {
            (Some(a), Some(b)) => b.saturating_sub(a).as_nanos() as u64,
            _ => from.wall.elapsed().as_nanos() as u64,
        };
    }

    fn since(self, before: Spent) -> Spent {
        Spent {
            calls: self.calls - before.calls,
            wall_ns: self.wall_ns - before.wall_ns,
            cpu_ns: self.cpu_ns - before.cpu_ns,
        }
    }
}

/// Host time by kind, since the device was opened or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTimes {
    /// Recording commands (on the recorder's thread too, then while the device works).
    pub record: Spent,
    /// Handing commands to the device.
    pub submit: Spent,
    /// Waiting for the device.
    pub wait: Spent,
    /// Mapping results and handing them over, without the wait.
    pub readback: Spent,
    /// From the end of a wait for all work to the next submit: the queue stands empty (`cpu_ns` is 0).
    pub empty: Spent,
}

impl HostTimes {
    /// What was spent between `before` and this.
    pub fn since(self, before: HostTimes) -> HostTimes {
        HostTimes {
            record: self.record.since(before.record),
            submit: self.submit.since(before.submit),
            wait: self.wait.since(before.wait),
            readback: self.readback.since(before.readback),
            empty: self.empty.since(before.empty),
        }
    }

    /// CPU nanoseconds of everything.
    pub fn cpu_ns(&self) -> u64 {
        let all = [self.record, self.submit, self.wait, self.readback];
        all.iter().map(|s| s.cpu_ns).sum()
    }
}

/// When a call began.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Moment {
    pub(super) fn now() -> Moment {
        Moment {
            wall: Instant::now(),
            cpu: thread_time(),
        }
    }
}

/// CPU time of the calling thread so far.
#[cfg(unix)]
fn thread_time() -> Option<Duration> {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Duration::new(t.tv_sec as u64, t.tv_nsec as u32))
}

#[cfg(not(unix))]
fn thread_time() -> Option<Duration> {
    None
}

/// The counters of a device.
#[derive(Debug, Default)]
pub struct HostClock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    times: HostTimes,
    /// When the queue was last known to be empty; `None` after a submit.
    drained: Option<Instant>,
}

impl HostClock {
    /// All times so far.
    pub fn times(&self) -> HostTimes {
        self.state().times
    }

    pub(super) fn recorded(&self, from: Moment) {
        self.state().times.record.add(from);
    }

    /// A submit is about to be made.
    pub(super) fn submitting(&self) {
        let state = &mut *self.state();
        if let Some(drained) = state.drained.take() {
            state.times.empty.calls += 1;
            state.times.empty.wall_ns += drained.elapsed().as_nanos() as u64;
        }
    }

    pub(super) fn submitted(&self, from: Moment) {
        self.state().times.submit.add(from);
    }

    /// A wait for everything is over.
    pub(super) fn waited(&self, from: Moment) {
        let state = &mut *self.state();
        state.times.wait.add(from);
        state.drained = Some(Instant::now());
    }

    pub(super) fn read_back(&self, from: Moment) {
        self.state().times.readback.add(from);
    }

    /// Whatever panicked while holding the lock left numbers behind, and numbers are all there is.
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_and_subtract() {
        let clock = HostClock::default();
        let busy = |ms| {
            let from = Moment::now();
            while from.wall.elapsed() < Duration::from_millis(ms) {}
            from
        };
        clock.submitting();
        assert_eq!(clock.times().empty.calls, 0, "nothing was waited for");
        clock.submitted(busy(2));
        clock.waited(busy(2));
        let before = clock.times();
        assert_eq!((before.submit.calls, before.wait.calls), (1, 1));
        assert!(before.submit.wall_ns >= 2_000_000 && before.submit.cpu_ns > 0);
        std::thread::sleep(Duration::from_millis(3));
        clock.submitting();
        clock.submitting();
        clock.recorded(busy(1));
        let spent = clock.times().since(before);
        assert_eq!((spent.empty.calls, spent.submit.calls), (1, 0));
        assert!(spent.empty.wall_ns >= 3_000_000);
        assert_eq!(spent.cpu_ns(), spent.record.cpu_ns);
    }

    /// Sleeping is no CPU time, where a system tells the two apart.
    #[cfg(unix)]
    #[test]
    fn cpu_time_is_not_wall_time() {
        let from = Moment::now();
        std::thread::sleep(Duration::from_millis(20));
        let mut spent = Spent::default();
        spent.add(from);
        assert!(spent.wall_ns >= 20_000_000 && spent.cpu_ns < 10_000_000);
    }
}
