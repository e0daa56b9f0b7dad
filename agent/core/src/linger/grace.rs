//! The end of the grace period that the kubelet gives a container whose stop signal waits.

use std::time::Duration;

use crate::base::time::Timestamp;

/// The deletion's time has no fractions of a second.
pub(super) const ROUNDING: Duration = Duration::from_secs(1);

/// The grace periods of one deletion. A later deletion can only shorten the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct GracePeriods {
    first: Option<Duration>,
    shortest: Option<Duration>,
    /// The earliest end of the shorter ones.
    shortened_end: Option<Timestamp>,
}

impl GracePeriods {
    /// Notes the grace period that the kubelet's list shows now.
    pub(super) fn listed(&mut self, now: Timestamp, grace: Duration) {
        self.first.get_or_insert(grace);
        if grace < *self.shortest.get_or_insert(grace) {
            self.shortest = Some(grace);
            // The API server counts it from the first deletion. The kubelet stops the container anew, and gives it the
            // whole time from then on.
            let end = now + grace;
            self.shortened_end = self.shortened_end.into_iter().chain([end]).min();
        }
    }

    /// When the kubelet alone would kill a container at the latest whose stop signal came at this time; None before the
    /// kubelet's list showed the deletion.
    pub(super) fn end(&self, since: Timestamp) -> Option<Timestamp> {
        let first_end = since + self.first?;
        self.shortened_end.into_iter().chain([first_end]).min()
    }
}
