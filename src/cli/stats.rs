//! Mean, deviation and percentiles of measured samples.

/// Arithmetic mean; 0 of nothing.
pub fn mean(samples: &[f64]) -> f64 {
    match samples {
        [] => 0.0,
        s => s.iter().sum::<f64>() / s.len() as f64,
    }
}

/// Standard deviation of a sample (divided by n - 1, as llama-bench has it); 0 of fewer than two.
pub fn deviation(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return 0.0;
    }
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|s| (s - mean).powi(2)).sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// The value below which `p` percent of the samples lie, interpolated between the two nearest;
/// `None` of nothing.
pub fn percentile(samples: &[f64], p: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = p / 100.0 * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_deviations() {
        assert_eq!((mean(&[]), deviation(&[])), (0.0, 0.0));
        assert_eq!((mean(&[3.0]), deviation(&[3.0])), (3.0, 0.0));
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&samples), 5.0);
        assert!((deviation(&samples) - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn percentiles_interpolate_and_do_not_need_order() {
        assert_eq!(percentile(&[], 50.0), None);
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        let samples = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(percentile(&samples, 0.0), Some(10.0));
        assert_eq!(percentile(&samples, 50.0), Some(25.0));
        assert_eq!(percentile(&samples, 100.0), Some(40.0));
        assert!((percentile(&samples, 95.0).unwrap() - 38.5).abs() < 1e-9);
    }
}
