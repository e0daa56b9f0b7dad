//! Measured times and their quantiles.

use std::time::Duration;

/// Times of one kind.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    times: Vec<Duration>,
}

impl Sample {
    pub(crate) fn add(&mut self, time: Duration) {
        self.times.push(time);
    }

    pub(crate) const fn len(&self) -> usize {
        self.times.len()
    }

    /// In milliseconds, by nearest rank: one of the measured times.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let count = u32::try_from(sorted.len()).expect("a small number");
        let rank = (f64::from(count) * quantile).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the number of times"
        )]
        let index = (rank as usize).saturating_sub(1).min(last);
        sorted
            .get(index)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}
