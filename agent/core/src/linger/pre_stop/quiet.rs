//! When the stop signal of an app with `usher.dev/pre-stop: auto` is released: after a floor, when clients have sent
//! nothing for a while.
//!
//! The ceiling, which is the grace period less a reserve, is the caller's.

use std::time::Duration;

use super::traffic::Sample;
use crate::{
    base::time::Timestamp,
    linger::{Released, Unmeasured},
};

/// Time for load balancers and proxies to remove the pod from their endpoints.
pub const FLOOR: Duration = Duration::from_secs(5);
/// Silence after which no client uses the pod.
pub const SILENCE: Duration = Duration::from_secs(2);
/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(500);
/// The first sample, before the end of the floor. One interval more than the silence: a sample takes time.
const HEAD_START: Duration = Duration::from_millis(2500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Sample,
    WaitUntil(Timestamp),
    /// The reply to the sample decides.
    WaitForSample,
    Release(Released),
}

/// Observes the traffic of one app while its stop signal waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// The end of the floor.
    floor: Timestamp,
    state: Traffic,
    next_sample: Timestamp,
    /// When the sample was requested that has no reply yet.
    requested: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    /// There was no sample yet.
    Unknown,
    /// Clients have sent nothing from the first moment to the second.
    Silent {
        since: Timestamp,
        until: Timestamp,
        /// New connections from the node since then.
        from_node: u64,
    },
    Unmeasured(Unmeasured),
}

impl Quiet {
    /// The stop signal waits since this moment.
    pub(crate) fn new(held_since: Timestamp) -> Self {
        let floor = held_since + FLOOR;
        Self {
            floor,
            state: Traffic::Unknown,
            next_sample: floor - HEAD_START,
            requested: None,
        }
    }

    /// The traffic cannot be measured: the floor is all.
    pub(crate) fn give_up(&mut self, why: Unmeasured) {
        self.state = Traffic::Unmeasured(why);
        self.requested = None;
    }

    pub(crate) fn next(&self, now: Timestamp) -> Next {
        match self.state {
            Traffic::Unmeasured(why) if now >= self.floor => Next::Release(Released::Floor(why)),
            Traffic::Unmeasured(_why) => Next::WaitUntil(self.floor),
            Traffic::Silent { since, until, .. }
                if until >= self.floor && until.since(since) >= SILENCE =>
            {
                Next::Release(Released::Quiet)
            }
            Traffic::Unknown | Traffic::Silent { .. } => {
                if self.requested.is_some() {
                    Next::WaitForSample
                } else if now >= self.next_sample {
                    Next::Sample
                } else {
                    Next::WaitUntil(self.next_sample)
                }
            }
        }
    }

    pub(crate) fn requested(&mut self, now: Timestamp) {
        self.requested = Some(now);
    }

    /// A sample has arrived. `probers` is the number of containers that the kubelet may probe once a second.
    pub(crate) fn sampled(&mut self, now: Timestamp, sample: Sample, probers: u64) {
        // A reply to the request of an earlier hold has none.
        let Some(requested) = self.requested.take() else {
            return;
        };
        if !sample.listens {
            self.give_up(Unmeasured::NoListener);
            return;
        }
        let before = match self.state {
            Traffic::Unmeasured(_) => return,
            Traffic::Silent {
                since, from_node, ..
            } if !sample.is_first => Some((since, from_node + sample.from_node)),
            Traffic::Silent { .. } | Traffic::Unknown => None,
        };
        let is_quiet = |(since, from_node): &(Timestamp, u64)| {
            let seconds = now.since(*since).as_secs() + 1;
            sample.connections == 0 && sample.bytes == 0 && *from_node <= probers * seconds
        };
        // The sample shows what was sent until it was requested, and maybe what was sent later.
        let (since, until, from_node) = match before.filter(is_quiet) {
            Some((since, from_node)) => (since, requested, from_node),
            None => (now, now, 0),
        };
        self.state = Traffic::Silent {
            since,
            until,
            from_node,
        };
        let regular = requested + INTERVAL;
        let enough = self.floor.max(since + SILENCE);
        self.next_sample = if enough > requested {
            regular.min(enough)
        } else {
            regular
        };
    }
}

#[cfg(test)]
mod tests;
