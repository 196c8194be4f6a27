//! From a file to text: loads a model onto a device, keeps sequences in slots, and drives the step
//! plans. It knows neither terminals nor HTTP.

mod blame;
mod contest;
mod fitting;
mod generate;
mod governor;
mod info;
mod kept;
mod kernels;
mod load;
mod pace;
mod pages;
mod prove;
mod quarantine;
mod recorder;
mod recover;
mod roofline;
mod scheduler;
mod seat;
pub mod sensors;
mod session;
mod stop;
mod trace;
mod tune;
mod verdicts;
mod verify;

pub use contest::{Outcome, Tried};
pub use fitting::{Fit, KV_TYPES, Memory, fit, fits, largest, weights_by_type};
pub use generate::{GenerateOptions, Generation, Piece, SampleOptions, Stats, Stop};
pub use governor::{Governor, PaceOptions, Rest, Why};
pub use info::{EngineInfo, Load};
pub use kernels::{KernelBench, KernelTime};
pub use load::{Engine, EngineOptions, LoadStage};
pub use pace::{Pace, PaceReport};
pub use prove::{Part, Verified};
pub use quarantine::{Caught, Quarantine};
pub use roofline::Work;
pub use scheduler::{NOT_FINITE, Scheduler};
pub use session::Session;
pub use tune::{LOAD_BUDGET, Measured, Tune, TuneOptions, TuneReport};
