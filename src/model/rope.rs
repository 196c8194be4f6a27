//! Rotary position embedding: the angles of every position, computed once on the host in f64.
//!
//! A position p turns pair i by `p * f_i`. To keep the table small for long contexts it is split:
//! row `p % 256` and row `256 + p / 256` are composed by the angle addition formulas in the shader.

use super::hyper::Reader;
use crate::gguf::Gguf;
use crate::{Error, Result};

/// One rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Rotated dimensions of a head (even).
    pub rot: u32,
    /// Frequency base.
    pub base: f32,
    /// Factor on positions (1 / `rope.scaling.factor` for linear scaling).
    pub scale: f32,
    /// Divisors per pair (`rope_freqs.weight`, Llama 3).
    pub factors: Option<Vec<f32>>,
    /// YaRN (arXiv:2309.00071).
    pub yarn: Option<Yarn>,
}

/// YaRN's parameters: pairs that turn often keep their frequency, slow ones are interpolated.
#[derive(Clone, Debug, PartialEq)]
pub struct Yarn {
    /// Context the base frequencies were trained for.
    pub original_context: f32,
    /// Turns above which a pair is left alone.
    pub beta_fast: f32,
    /// Turns below which a pair is fully interpolated.
    pub beta_slow: f32,
    /// Factor on cos and sin.
    pub attn_factor: f32,
}

impl Rope {
    /// Reads `<arch>.rope.*`. `rope_freqs.weight` is added by the architectures that have it.
    pub fn from_gguf(g: &Gguf, arch: &'static str, rot: u32) -> Result<Rope> {
        let r = Reader { g, arch };
        let f = |name: &str| g.f32(&r.key(name));
        let number = |name: &str, usual| r.number(f(name)?.unwrap_or(usual), name);
        let base = r.number(f("rope.freq_base")?.unwrap_or(10000.0), "rope.freq_base")?;
        let mut rope = Rope {
            rot,
            base,
            scale: 1.0,
            factors: None,
            yarn: None,
        };
        // Older files give linear scaling by this key alone.
        let (factor, key) = match f("rope.scaling.factor")? {
            Some(factor) => (factor, "rope.scaling.factor"),
            None => {
                let key = "rope.scale_linear";
                (f(key)?.unwrap_or(1.0), key)
            }
        };
        let factor = match factor {
            0.0 => 1.0,
            factor => r.number(factor, key)?,
        };
        match g.str(&r.key("rope.scaling.type"))?.unwrap_or("linear") {
            "none" => {}
            "linear" => rope.scale = 1.0 / factor,
            "yarn" => {
                rope.scale = 1.0 / factor;
                let trained = g.u32(&r.key("context_length"))?.unwrap_or(0) as f32;
                rope.yarn = Some(Yarn {
                    original_context: g
                        .u32(&r.key("rope.scaling.original_context_length"))?
                        .map_or(trained, |n| n as f32)
                        .max(1.0),
                    beta_fast: number("rope.scaling.yarn_beta_fast", 32.0)?,
                    beta_slow: number("rope.scaling.yarn_beta_slow", 1.0)?,
                    attn_factor: number("rope.scaling.attn_factor", 1.0)?
                        * number("rope.scaling.yarn_attn_factor", 1.0)?,
                });
                // Variants of YaRN that would change the angles: refused rather than ignored.
                for (name, usual) in [
                    ("rope.scaling.yarn_ext_factor", 1.0),
                    ("rope.scaling.yarn_log_multiplier", 0.0),
                ] {
                    if let Some(v) = f(name)?.filter(|v| *v != usual) {
                        return Err(r.bad(name, v, "only YaRN without it is supported"));
                    }
                }
            }
            other => {
                return Err(Error::RopeScaling {
                    path: g.path().to_path_buf(),
                    name: other.to_string(),
                });
            }
        }
        let (angles, factor) = rope.frequencies();
        if !angles.iter().chain([&factor]).all(|f| f.is_finite()) {
            let why = "gives, with the keys of rope.scaling, angles that are no numbers";
            return Err(r.bad("rope.freq_base", base, why));
        }
        Ok(rope)
    }

    /// Pairs per head.
    pub fn pairs(&self) -> usize {
        self.rot as usize / 2
    }

    /// Radians per position of each pair, and the factor on cos and sin.
    fn frequencies(&self) -> (Vec<f64>, f64) {
        let (rot, base, scale) = (
            f64::from(self.rot),
            f64::from(self.base),
            f64::from(self.scale),
        );
        let mut f: Vec<f64> = (0..self.pairs())
            .map(|i| base.powf(-2.0 * i as f64 / rot))
            .collect();
        if let Some(d) = &self.factors {
            f.iter_mut().zip(d).for_each(|(f, d)| *f /= f64::from(*d));
        }
        let Some(y) = &self.yarn else {
            f.iter_mut().for_each(|f| *f *= scale);
            return (f, 1.0);
        };
        // The pair that makes `turns` turns over the original context (YaRN, equation 17 ff.).
        let pair = |turns: f32| {
            rot * (f64::from(y.original_context) / (f64::from(turns) * std::f64::consts::TAU)).ln()
                / (2.0 * base.ln())
        };
        let low = pair(y.beta_fast).floor().max(0.0);
        let high = pair(y.beta_slow).ceil().min(rot - 1.0);
        for (i, f) in f.iter_mut().enumerate() {
            let ramp = ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            *f = *f * scale * ramp + *f * (1.0 - ramp);
        }
        (
            f,
            f64::from(y.attn_factor) * (1.0 + 0.1 * (1.0 / scale).ln()),
        )
    }

    /// (cos, sin) of pair `i` at rows `0..256` (position % 256, with the factor on cos and sin) and
    /// `256..` (position / 256), for positions below `context`; row-major `[row, pair, 2]`.
    pub fn table(&self, context: u32) -> Vec<f32> {
        let (freq, factor) = self.frequencies();
        let n_hi = context.div_ceil(256).max(1) as usize;
        let mut out = Vec::with_capacity((256 + n_hi) * freq.len() * 2);
        for row in 0..256 + n_hi {
            let (p, m) = if row < 256 {
                (row as f64, factor)
            } else {
                ((row - 256) as f64 * 256.0, 1.0)
            };
            for f in &freq {
                let (s, c) = (p * f).sin_cos();
                out.extend([(c * m) as f32, (s * m) as f32]);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(rot: u32, base: f32) -> Rope {
        Rope {
            rot,
            base,
            scale: 1.0,
            factors: None,
            yarn: None,
        }
    }

    #[test]
    fn two_rows_compose_to_the_angle() {
        let r = plain(8, 10000.0);
        let t = r.table(1000);
        let at = |row: usize, i: usize| {
            (
                f64::from(t[(row * 4 + i) * 2]),
                f64::from(t[(row * 4 + i) * 2 + 1]),
            )
        };
        for p in [0usize, 1, 255, 256, 777, 999] {
            for i in 0..4 {
                let ((c0, s0), (c1, s1)) = (at(p % 256, i), at(256 + p / 256, i));
                let want = (p as f64 * 10000f64.powf(-2.0 * i as f64 / 8.0)).sin_cos();
                assert!((c0 * c1 - s0 * s1 - want.1).abs() < 3e-7);
                assert!((s0 * c1 + c0 * s1 - want.0).abs() < 3e-7);
            }
        }
    }

    #[test]
    fn yarn_leaves_fast_pairs_and_interpolates_slow_ones() {
        let mut r = plain(128, 1_000_000.0);
        let plain = r.frequencies().0;
        r.scale = 0.25;
        r.yarn = Some(Yarn {
            original_context: 32768.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attn_factor: 1.0,
        });
        let (f, m) = r.frequencies();
        assert_eq!(f[0], plain[0]);
        assert!((f[63] - plain[63] * 0.25).abs() < 1e-15);
        assert!((m - (1.0 + 0.1 * 4f64.ln())).abs() < 1e-12);
    }
}
