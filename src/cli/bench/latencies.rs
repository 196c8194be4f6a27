//! Latencies of any number of steps in little room: a run of days must not grow by what it measures.

/// The smallest latency told apart from none, in milliseconds.
const LEAST: f64 = 1e-3;
/// Bins are so much wider each: percentiles are exact to half of it.
const STEP: f64 = 1.005;
/// Up to a thousand seconds.
const BINS: usize = 4200;

/// Counts by latency.
#[derive(Clone, Default)]
pub struct Latencies {
    counts: Vec<u32>,
    n: u64,
    most: f64,
}

impl Latencies {
    /// Adds milliseconds.
    pub fn extend(&mut self, ms: &[f64]) {
        self.counts.resize(BINS, 0);
        for &ms in ms {
            let bin = ((ms / LEAST).ln() / STEP.ln()).max(0.0) as usize;
            self.counts[bin.min(BINS - 1)] += 1;
            self.n += 1;
            self.most = self.most.max(ms);
        }
    }

    /// Milliseconds that `p` percent of the steps do not exceed, to half a percent; `None` of nothing.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let place = (p / 100.0 * self.n.checked_sub(1)? as f64).round() as u64;
        let mut before = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            before += u64::from(*count);
            if before > place {
                return Some((LEAST * STEP.powf(bin as f64 + 0.5)).min(self.most));
            }
        }
        Some(self.most)
    }

    /// The median, the 99th percentile and the longest; from now on it holds nothing.
    pub fn take(&mut self) -> [Option<f64>; 3] {
        let all = [self.percentile(50.0), self.percentile(99.0), self.most()];
        self.counts.fill(0);
        (self.n, self.most) = (0, 0.0);
        all
    }

    /// The longest, exactly.
    pub fn most(&self) -> Option<f64> {
        (self.n > 0).then_some(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_to_half_a_percent() {
        let mut l = Latencies::default();
        assert_eq!((l.percentile(50.0), l.most()), (None, None));
        let ms: Vec<f64> = (1..=1000).map(|i| f64::from(i) * 0.37).collect();
        l.extend(&ms);
        for p in [1.0, 50.0, 90.0, 99.0, 100.0] {
            let exact = crate::cli::stats::percentile(&ms, p).unwrap();
            let got = l.percentile(p).unwrap();
            assert!((got / exact - 1.0).abs() < 0.01, "{p}: {got}, {exact}");
        }
        assert_eq!(l.most(), Some(370.0));
        // What no bin is for goes into the first or the last.
        l.extend(&[0.0, 1e9]);
        assert_eq!(
            l.percentile(100.0),
            Some(1e9_f64.min(LEAST * STEP.powf(BINS as f64 - 0.5)))
        );
    }
}
