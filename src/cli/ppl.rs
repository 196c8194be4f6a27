//! `tokstep ppl`: perplexity of a text, computed as llama-perplexity does, so that the numbers can
//! be compared: chunks of `-c` tokens, each begun with BOS if the model uses one, and of each
//! only the second half scored.

use super::load::{self, ModelArgs};
use super::{out, prompt};
use clap::Args;
use std::path::PathBuf;
use tokstep::engine::EngineOptions;
use tokstep::{Error, Result};

/// Perplexity of a text
///
/// The text is cut into chunks of -c tokens; in each the second half is scored, every token by
/// what the model predicts after those before it. Comparable with llama-perplexity.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tokstep ppl -m smollm2 -f book.txt
  tokstep ppl -m model.gguf -f book.txt -c 2048 --chunks 4")]
pub struct PplArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Text file (UTF-8)
    #[arg(short, long)]
    file: PathBuf,
    /// Tokens per chunk
    #[arg(short, long, value_name = "N", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(4..))]
    context: u32,
    /// Score only the first N chunks [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    chunks: Option<u32>,
}

pub fn run(args: &PplArgs) -> Result<()> {
    let text = prompt::read_text(&args.file)?;
    let options = EngineOptions {
        context: Some(args.context),
        ..EngineOptions::default()
    };
    let engine = load::engine(&args.model, options)?;
    if engine.info().context < args.context {
        return Err(Error::NotEnoughContext {
            what: "the chunk".into(),
            need: args.context as usize,
            context: engine.info().context,
        });
    }
    let tokens = engine.tokenizer().encode(&text, false, true)?;
    // No text becomes a BOS token, so a first one says that the model wants one.
    let bos = engine.tokenizer().bos();
    let bos = bos.filter(|&bos| tokens.first() == Some(&bos));
    let size = args.context as usize;
    if tokens.len() < 2 * size {
        return Err(Error::TextTooShort {
            file: args.file.clone(),
            tokens: tokens.len(),
            chunk: size,
        });
    }
    let chunks = tokens.len() / size;
    let chunks = args.chunks.map_or(chunks, |n| chunks.min(n as usize));
    tracing::info!("{} tokens, {chunks} chunks of {size}", tokens.len());

    let mut session = engine.session()?;
    let mut score = Score::default();
    for (n, chunk) in tokens.chunks_exact(size).take(chunks).enumerate() {
        let (context, scored) = split(chunk, bos);
        session.rewind(0);
        session.prefill(&context)?;
        // Logits after `scored[i]` predict `scored[i + 1]`.
        let (given, wanted) = (&scored[..scored.len() - 1], &scored[1..]);
        session.logits(given, &mut |i, logits| score.add(logits, wanted[i]))?;
        if !score.nll.is_finite() {
            return Err(session.not_finite());
        }
        out::text(format_args!("[{}]{:.4},", n + 1, score.perplexity()))?;
    }
    out::line("")?;
    out::line(format_args!(
        "Final estimate: PPL = {:.4} +/- {:.5}",
        score.perplexity(),
        score.error()
    ))
}

/// A chunk of `n` tokens as (first half, second half), the first token replaced by BOS if the
/// model uses it. In the second half all but the first token are scored.
fn split(chunk: &[u32], bos: Option<u32>) -> (Vec<u32>, &[u32]) {
    let (context, scored) = chunk.split_at(chunk.len() / 2);
    let mut context = context.to_vec();
    if let Some(bos) = bos {
        context[0] = bos;
    }
    (context, scored)
}

/// Sums over scored tokens.
#[derive(Default)]
struct Score {
    /// Negative log-likelihoods.
    nll: f64,
    /// Their squares.
    nll2: f64,
    count: usize,
}

impl Score {
    /// Scores token `target` under the distribution of `logits`.
    fn add(&mut self, logits: &[f32], target: u32) {
        let max = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b)) as f64;
        let sum: f64 = logits.iter().map(|&l| (l as f64 - max).exp()).sum();
        let nll = max + sum.ln() - logits[target as usize] as f64;
        self.nll += nll;
        self.nll2 += nll * nll;
        self.count += 1;
    }

    fn perplexity(&self) -> f64 {
        (self.nll / self.count as f64).exp()
    }

    /// Standard error of the perplexity, from that of the mean log-likelihood.
    fn error(&self) -> f64 {
        let n = self.count as f64;
        let variance = self.nll2 / n - (self.nll / n).powi(2);
        (variance.max(0.0) / (n - 1.0)).sqrt() * self.perplexity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_model_has_the_vocabulary_as_perplexity() {
        let mut score = Score::default();
        for target in 0..7 {
            score.add(&[1000.0; 7], target);
        }
        assert!((score.perplexity() - 7.0).abs() < 1e-12);
        assert!(score.error() < 1e-6);
    }

    #[test]
    fn perplexity_and_error_of_two_tokens() {
        let mut score = Score::default();
        // Probabilities 1/2 and 1/8.
        score.add(&[0.0, 0.0], 0);
        score.add(&[0.0, 7f32.ln()], 0);
        assert!((score.perplexity() - 4.0).abs() < 1e-6, "geometric mean");
        // Log-likelihoods ln 2 and ln 8: mean 2 ln 2, deviation ln 2, one degree of freedom.
        assert!((score.error() - 2f64.ln() * 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_chunk_of_512_scores_255_tokens() {
        let chunk: Vec<u32> = (0..512).collect();
        let (context, scored) = split(&chunk, Some(9999));
        assert_eq!((context.len(), context[0], context[1]), (256, 9999, 1));
        assert_eq!((scored[0], scored.len() - 1), (256, 255));
        assert_eq!(split(&chunk, None).0[0], 0);
        let (context, scored) = split(&chunk[..5], None);
        assert_eq!((context.len(), scored.len() - 1), (2, 2), "5 - 5/2 - 1");
    }
}
