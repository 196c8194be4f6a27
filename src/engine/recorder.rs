//! Records decode steps on a second thread while the device runs the ones before, so that the queue
//! never waits for the host's encoding.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::gpu::{Commands, GpuProgram, Staging};
use crate::plan::{Batch, Which};

/// What one command buffer is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Decode steps.
    pub steps: u32,
    /// The first of them.
    pub first: Batch,
    /// Staging buffer that takes the ring.
    pub staging: usize,
}

/// What recording needs.
#[derive(Clone)]
struct Tape {
    program: Arc<GpuProgram>,
    staging: Arc<[Staging; 2]>,
}

impl Tape {
    fn record(&self, job: Job) -> Commands {
        let batches = (0..job.steps).map(|i| Batch {
            kv_len: job.first.kv_len + i,
            ..job.first
        });
        let ring = &self.staging[job.staging];
        self.program.record(Which::Decode, batches, |encoder| {
            ring.copy(&self.program, self.program.program.io.ring, encoder)
        })
    }
}

/// The thread and what it was last asked for.
pub struct Recorder {
    tape: Tape,
    jobs: Option<Sender<Job>>,
    done: Receiver<Commands>,
    /// The job, and how much of the KV cache its commands bind.
    asked: Option<(Job, usize)>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts the thread. Where there can be none, commands are recorded when they are taken.
    pub fn start(program: Arc<GpuProgram>, staging: Arc<[Staging; 2]>) -> Recorder {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, done) = channel();
        let tape = Tape { program, staging };
        let ahead = tape.clone();
        let work = move || {
            for job in inbox {
                if outbox.send(ahead.record(job)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("recorder".into());
        Recorder {
            tape,
            jobs: Some(jobs),
            done,
            asked: None,
            thread: thread.spawn(work).ok(),
        }
    }

    /// Asks for a job ahead of time.
    pub fn ask(&mut self, job: Job) {
        let asked = (job, self.tape.program.rung());
        if self.asked.is_none() && self.jobs.as_ref().is_some_and(|j| j.send(job).is_ok()) {
            self.asked = Some(asked);
        }
    }

    /// The commands of a job: what was asked for if it is just that, else recorded now.
    pub fn take(&mut self, job: Job) -> Commands {
        if let Some(asked) = self.asked.take()
            && let Ok(commands) = self.done.recv()
            && asked == (job, self.tape.program.rung())
        {
            return commands;
        }
        self.tape.record(job)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}
