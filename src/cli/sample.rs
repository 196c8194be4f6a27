//! Flags of sampling and stopping, shared by `run` and `chat`.

use clap::Args;
use std::hash::{BuildHasher, RandomState};
use tokstep::engine::{GenerateOptions, SampleOptions};

#[derive(Args)]
#[command(next_help_heading = "Sampling")]
pub struct SampleArgs {
    /// Most tokens to generate [default: until the model ends or the context is full]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub predict: Option<u32>,
    /// Temperature; 0 always takes the likeliest token [default: 0.8]
    #[arg(long, value_name = "T", value_parser = not_negative, allow_negative_numbers = true)]
    pub temp: Option<f32>,
    /// Sample among the K likeliest tokens; 0: all [default: 40]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<u32>,
    /// Sample among the likeliest tokens that together have probability P; 1: all [default: 0.95]
    #[arg(long, value_name = "P", value_parser = probability, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Drop tokens less likely than P times the likeliest; 0: none [default: 0.05]
    #[arg(long, value_name = "P", value_parser = probability, allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// The same seed gives the same answer [default: random; --json shows it]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Make recent tokens less likely; 1: do not [default: 1]
    #[arg(long, value_name = "R", value_parser = positive, allow_negative_numbers = true)]
    repeat_penalty: Option<f32>,
    /// End the answer before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Go on after the model's end tokens
    #[arg(long)]
    ignore_eos: bool,
}

impl SampleArgs {
    /// The engine's options; a seed is drawn when none was given.
    pub fn options(&self) -> GenerateOptions {
        let d = SampleOptions::default();
        GenerateOptions {
            max_tokens: self.predict,
            sample: SampleOptions {
                temp: self.temp.unwrap_or(d.temp),
                top_k: self.top_k.unwrap_or(d.top_k),
                top_p: self.top_p.unwrap_or(d.top_p),
                min_p: self.min_p.unwrap_or(d.min_p),
                // std keys its hash maps from the system's random source. 53 bits, so that every
                // JSON reader gives the number back unchanged.
                seed: self
                    .seed
                    .unwrap_or_else(|| RandomState::new().hash_one(0u8) >> 11),
                repeat_penalty: self.repeat_penalty.unwrap_or(d.repeat_penalty),
                ..d
            },
            stop: self.stop.clone(),
            ignore_eos: self.ignore_eos,
        }
    }
}

fn number(text: &str, good: fn(f32) -> bool, what: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(v) if good(v) => Ok(v),
        _ => Err(format!("{what} is needed")),
    }
}

fn not_negative(text: &str) -> Result<f32, String> {
    number(text, |v| v >= 0.0 && v.is_finite(), "a number of 0 or more")
}

fn positive(text: &str) -> Result<f32, String> {
    number(text, |v| v > 0.0 && v.is_finite(), "a number above 0")
}

fn probability(text: &str) -> Result<f32, String> {
    number(text, |v| (0.0..=1.0).contains(&v), "a number from 0 to 1")
}
