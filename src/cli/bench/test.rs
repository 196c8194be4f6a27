//! What is measured: one row before it has figures.

use tokstep::{Error, Result};

/// A prompt to process or tokens to generate, behind a depth, in a number of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Test {
    /// Tokens of the prompt; 0: generation.
    pub prompt: u32,
    /// Tokens to generate in each sequence.
    pub gen_: u32,
    /// Tokens in the context before.
    pub depth: u32,
    /// Sequences in one step.
    pub parallel: u32,
}

impl Test {
    /// llama-bench's name and the number of sequences, e.g. `tg128 @ d4096 x8`.
    pub fn name(self) -> String {
        let name = match self.prompt {
            0 => format!("tg{}", self.gen_),
            n => format!("pp{n}"),
        };
        let name = match self.depth {
            0 => name,
            d => format!("{name} @ d{d}"),
        };
        match self.parallel {
            1 => name,
            n => format!("{name} x{n}"),
        }
    }

    /// Whether it measures generation.
    pub fn decodes(self) -> bool {
        self.prompt == 0
    }

    /// Tokens before what is measured: the depth, and one at least to begin generation from.
    pub fn before(self) -> u32 {
        match self.prompt {
            0 => self.depth.max(1),
            _ => self.depth,
        }
    }

    /// Positions of the context that it uses; one is for the token that is sampled but not counted.
    pub fn context(self) -> u32 {
        self.before() + self.prompt + self.gen_ + 1
    }

    /// Tokens that are counted, of all sequences.
    pub fn tokens(self) -> u64 {
        u64::from(self.prompt + self.gen_) * u64::from(self.parallel)
    }
}

/// All tests, those of one number of sequences together: each number is a load of its own. Prompts
/// go through the model one sequence at a time, so they are measured with the first number only, alone.
pub fn all(prompts: &[u32], gens: &[u32], depths: &[u32], parallel: &[u32]) -> Result<Vec<Test>> {
    let mut tests: Vec<Test> = vec![];
    for (i, &parallel) in parallel.iter().enumerate() {
        for &depth in depths {
            let pp = prompts.iter().filter(|_| i == 0).map(|&n| (n, 0, 1));
            let tg = gens.iter().map(|&n| (0, n, parallel));
            let wanted = pp.chain(tg).filter(|&(p, g, _)| p + g > 0);
            tests.extend(wanted.map(|(prompt, gen_, parallel)| Test {
                prompt,
                gen_,
                depth,
                parallel,
            }));
        }
    }
    match tests.is_empty() {
        true => Err(Error::NothingToMeasure),
        false => Ok(tests),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contexts() {
        let test = |prompt, gen_, depth, parallel| Test {
            prompt,
            gen_,
            depth,
            parallel,
        };
        assert_eq!(test(512, 0, 0, 1).name(), "pp512");
        assert_eq!(test(0, 128, 4096, 1).name(), "tg128 @ d4096");
        assert_eq!(test(0, 32, 0, 8).name(), "tg32 x8");
        assert_eq!(test(0, 32, 0, 8).tokens(), 256);
        assert_eq!(test(0, 128, 0, 1).context(), 130);
        assert_eq!(test(0, 128, 4096, 1).context(), 4225);
        assert_eq!(test(512, 0, 64, 1).context(), 577);
    }

    #[test]
    fn the_order_of_tests() {
        let names = |tests: Vec<Test>| tests.iter().map(|t| t.name()).collect::<Vec<_>>();
        let tests = all(&[5, 0], &[3], &[0, 7], &[2, 4]).unwrap();
        let want = [
            "pp5",
            "tg3 x2",
            "pp5 @ d7",
            "tg3 @ d7 x2",
            "tg3 x4",
            "tg3 @ d7 x4",
        ];
        assert_eq!(names(tests), want);
        assert!(all(&[0], &[0], &[0], &[1]).is_err());
    }
}
