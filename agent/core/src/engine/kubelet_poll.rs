//! When the kubelet is polled for its pods: after events, one request at a time with a gap between two, and rarely
//! otherwise.

use std::{collections::BTreeSet, time::Duration};

use crate::base::time::Timestamp;

/// Least time between the starts of two requests: one request serves all events within it.
const GAP: Duration = Duration::from_millis(100);
/// First wait after a failure; doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// Longest wait after a failure.
const LAST_RETRY: Duration = Duration::from_secs(10);
/// The largest age of a list.
const RESYNC: Duration = Duration::from_secs(300);
/// The same while a stop signal waits: no event of the node shows that a deletion gets a shorter deadline.
const RECHECK: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Default)]
pub(crate) struct KubeletPoll {
    requested: BTreeSet<Timestamp>,
    last: Option<Timestamp>,
    in_flight: bool,
    failures: u32,
    /// When the newest list becomes too old.
    stale: Option<Timestamp>,
    /// The same where a stop signal waits.
    recheck: Option<Timestamp>,
}

impl KubeletPoll {
    /// Requests a list that is polled at `at` or later.
    pub(crate) fn request(&mut self, at: Timestamp) {
        // One list serves all requests before it, so requests closer together than the gap are merged.
        let near = self.requested.range(at..=at + GAP).next().is_some();
        if !near {
            self.requested.insert(at);
        }
    }

    /// Requests a list when the newest one is [`RECHECK`] old: one list serves all pods.
    pub(crate) fn recheck(&mut self, now: Timestamp) {
        self.recheck = Some(self.last.map_or(now, |last| last + RECHECK));
    }

    /// When the next request is due; None while one is in flight.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let first = self.requested.first().copied().into_iter();
        let first = first.chain(self.stale).chain(self.recheck).min()?;
        let after_gap = self.last.map_or(first, |last| first.max(last + GAP));
        (!self.in_flight).then_some(after_gap)
    }

    pub(crate) fn sent(&mut self, now: Timestamp) {
        self.requested = self.requested.split_off(&(now + Duration::from_nanos(1)));
        self.last = Some(now);
        self.stale = None;
        self.recheck = None;
        self.in_flight = true;
    }

    pub(crate) const fn last_sent(&self) -> Option<Timestamp> {
        self.last
    }

    /// A list arrived.
    pub(crate) fn answered(&mut self, now: Timestamp) {
        self.in_flight = false;
        self.failures = 0;
        self.stale = Some(now + RESYNC);
    }

    pub(crate) fn failed(&mut self, now: Timestamp) {
        self.in_flight = false;
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let retry = now + wait.min(LAST_RETRY);
        self.requested = self.requested.split_off(&retry);
        self.request(retry);
    }
}

/// The number of unhelpful replies with the longest wait of [`backoff`].
pub(crate) const LAST_BACKOFF: u32 = 11;

/// The wait before the kubelet is polled again for a fact that `unhelpful` replies in a row did not contain; None
/// when another poll is useless.
pub(crate) fn backoff(unhelpful: u32) -> Option<Duration> {
    const STEPS: [u64; 12] = [
        0, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10_000, 30_000,
    ];
    STEPS
        .get(usize::try_from(unhelpful).unwrap_or(usize::MAX))
        .map(|step| Duration::from_millis(*step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::new(Duration::from_millis(ms))
    }

    #[test]
    fn requests_are_coalesced_and_spaced() {
        let mut poll = KubeletPoll::default();
        assert_eq!(poll.due(), None);
        poll.request(at(1000));
        poll.request(at(950));
        assert_eq!(poll.due(), Some(at(1000)));
        poll.sent(at(1000));
        poll.request(at(1001));
        assert_eq!(poll.due(), None, "one at a time");
        poll.answered(at(1002));
        assert_eq!(poll.due(), Some(at(1100)), "room between two");
        poll.sent(at(1100));
        poll.answered(at(1101));
        assert_eq!(poll.due(), Some(at(1101) + RESYNC), "then seldom");
    }

    #[test]
    fn lists_are_newer_while_a_stop_signal_waits() {
        let mut poll = KubeletPoll::default();
        poll.request(at(0));
        poll.sent(at(0));
        poll.answered(at(1));
        // Two pods.
        poll.recheck(at(500));
        poll.recheck(at(700));
        assert_eq!(poll.due(), Some(at(0) + RECHECK));
        // A list for another reason serves them as well.
        poll.sent(at(1500));
        poll.recheck(at(1500));
        poll.answered(at(1501));
        assert_eq!(poll.due(), Some(at(1500) + RECHECK));
        poll.sent(at(3500));
        poll.answered(at(3501));
        assert_eq!(poll.due(), Some(at(3501) + RESYNC), "nothing waits");
    }

    #[test]
    fn later_requests_outlast_a_failure() {
        let mut poll = KubeletPoll::default();
        for ms in [0, 50, 150, 700, 2_500] {
            poll.request(at(ms));
        }
        poll.sent(at(0));
        poll.failed(at(10));
        for ms in [210, 700, 2_500] {
            assert_eq!(poll.due(), Some(at(ms)));
            poll.sent(at(ms));
            poll.answered(at(ms));
        }
    }

    #[test]
    fn failures_back_off_and_recover() {
        let mut poll = KubeletPoll::default();
        poll.request(at(0));
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            poll.sent(now);
            poll.failed(now);
            let due = poll.due().unwrap();
            waits.push(due.since(now).as_millis());
            now = due;
        }
        let expected = [200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000, 10000];
        assert_eq!(waits, expected);
        poll.sent(now);
        poll.answered(now);
        assert_eq!(poll.due(), Some(now + RESYNC));
    }
}
