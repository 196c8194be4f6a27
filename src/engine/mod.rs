//! From a file to text: loads a model onto a device, keeps sequences in slots, and drives the step
//! plans. It knows neither terminals nor HTTP.

mod contest;
mod generate;
mod info;
mod kernels;
mod load;
mod pages;
mod recorder;
mod roofline;
mod scheduler;
mod session;
mod stop;
mod trace;
mod tune;
mod verdicts;
mod verify;

pub use contest::{Outcome, Tried};
pub use generate::{GenerateOptions, Generation, Piece, SampleOptions, Stats, Stop};
pub use info::{EngineInfo, Load, Memory};
pub use kernels::{KernelBench, KernelTime};
pub use load::{Engine, EngineOptions, LoadStage};
pub use roofline::Work;
pub use scheduler::{NOT_FINITE, Scheduler};
pub use session::Session;
pub use tune::{LOAD_BUDGET, Measured, Tune, TuneOptions, TuneReport};
