use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub struct Sample {
    times: Vec<Duration>,
}

impl Sample {
    pub fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    pub const fn len(&self) -> usize {
        self.times.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// In milliseconds, by nearest rank: one of the measured times. NaN if there are none.
    pub fn quantile_ms(&self, part: f64) -> f64 {
        quantile(&self.sorted_ms(), part)
    }

    pub(super) fn sorted_ms(&self) -> Vec<f64> {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let ms = sorted.iter().map(|time| time.as_secs_f64() * 1e3);
        // More precision than nanoseconds is noise.
        ms.map(|ms| (ms * 1e6).round() / 1e6).collect()
    }
}

/// A quantile of sorted numbers, by nearest rank. NaN if there are none.
pub fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let count = u32::try_from(sorted.len()).unwrap_or(u32::MAX);
    let rank = (f64::from(count) * part).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and how many there are"
    )]
    let index = (rank as usize).saturating_sub(1).min(last);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_times() {
        let mut sample = Sample::default();
        assert!(sample.quantile_ms(0.5).is_nan());
        for ms in (1..=100).rev() {
            sample.add(Duration::from_millis(ms));
        }
        for (part, ms) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert!((sample.quantile_ms(part) - ms).abs() < 1e-9, "{part}");
        }
    }
}
