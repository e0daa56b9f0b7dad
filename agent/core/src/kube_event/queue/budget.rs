//! Token buckets, stored as the moment at which they are full again.

use std::time::Duration;

use crate::base::time::Timestamp;

/// The size of a burst, and the interval between the following Events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    burst: u32,
    interval: Duration,
}

impl Rate {
    pub(super) const fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval }
    }
}

/// The tokens that are left. A new bucket is full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bucket {
    full_at: Timestamp,
}

impl Bucket {
    /// The earliest moment at which a token is available.
    pub(super) fn ready(&self, now: Timestamp, rate: Rate) -> Timestamp {
        let room = rate.interval.saturating_mul(rate.burst - 1);
        (self.full_at - room).max(now)
    }

    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        self.full_at <= now
    }

    pub(super) fn take(&mut self, now: Timestamp, rate: Rate) {
        self.full_at = self.full_at.max(now) + rate.interval;
    }

    pub(super) fn give_back(&mut self, rate: Rate) {
        self.full_at = self.full_at - rate.interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_in_each_interval() {
        let rate = Rate::new(3, Duration::from_secs(5));
        let at = |seconds| Timestamp::new(Duration::from_secs(seconds));
        let mut bucket = Bucket::default();
        let mut taken = Vec::new();
        for second in 100..120 {
            while bucket.ready(at(second), rate) <= at(second) {
                bucket.take(at(second), rate);
                taken.push(second);
            }
        }
        assert_eq!(taken, [100, 100, 100, 105, 110, 115]);
        assert_eq!(bucket.ready(at(119), rate), at(120));
        bucket.give_back(rate);
        assert_eq!(bucket.ready(at(119), rate), at(119));
        assert!(!bucket.is_full(at(124)) && bucket.is_full(at(125)));
    }
}
