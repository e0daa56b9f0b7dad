//! Observe mode: how many connections clients opened to an app of a deleted pod after its stop signal. A pre-stop time would
//! have kept the app for them.

use std::time::Duration;

use super::traffic::Sample;
use crate::{
    base::{id::ContainerId, time::Timestamp},
    decision::Kind,
};

/// Time between two samples. The worker forgets the sockets of the one before after 5 s.
const INTERVAL: Duration = Duration::from_secs(2);
/// An app that runs for longer than these samples take is observed for their time.
const MOST_SAMPLES: u32 = 30;

/// What clients do after the stop signal of the first app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::linger) struct Inbound {
    pub(in crate::linger) app: ContainerId,
    stopped: Timestamp,
    /// Whether the pod is in deletion; None until the kubelet has replied.
    is_deletion: Option<bool>,
    connections: u64,
    samples: u32,
    next_sample: Timestamp,
    is_requested: bool,
    /// The end of the last app, when the last sample was requested.
    ended: Option<Timestamp>,
    is_over: bool,
}

impl Inbound {
    pub(in crate::linger) const fn new(
        app: ContainerId,
        stopped: Timestamp,
        is_deletion: Option<bool>,
    ) -> Self {
        Self {
            app,
            stopped,
            is_deletion,
            connections: 0,
            samples: 0,
            next_sample: stopped,
            is_requested: false,
            ended: None,
            is_over: false,
        }
    }

    /// The kubelet sent a list that was requested at this time. Returns whether the pod is in deletion, if that is known.
    pub(in crate::linger) fn listed(
        &mut self,
        requested: Option<Timestamp>,
        is_deletion: bool,
    ) -> Option<bool> {
        if requested >= Some(self.stopped) {
            self.is_deletion.get_or_insert(is_deletion);
        }
        self.is_deletion
    }

    /// A sample was made, or could not be. Returns what is to be reported.
    pub(in crate::linger) fn sampled(
        &mut self,
        now: Timestamp,
        sample: Option<Sample>,
    ) -> Option<Kind> {
        self.is_requested = false;
        self.samples += 1;
        self.next_sample = now + INTERVAL;
        match sample {
            // The first one shows nothing, also after a restart of the worker.
            Some(sample) if !sample.is_first => self.connections += sample.connections,
            Some(_) => {}
            None => self.is_over |= self.samples == 1,
        }
        let ended = self.ended.filter(|_| !self.is_over)?;
        self.is_over = true;
        let is_reported = self.is_deletion == Some(true) && self.connections > 0;
        is_reported.then(|| Kind::WouldPreStop {
            ran: ended.since(self.stopped),
            connections: self.connections,
        })
    }

    /// Whether a sample is due; `ended` is the end of the last app.
    pub(in crate::linger) fn due(&mut self, now: Timestamp, ended: Option<Timestamp>) -> Due {
        if self.is_over || self.is_requested {
            return Due::Never;
        }
        self.ended = ended;
        if ended.is_none() {
            if self.samples >= MOST_SAMPLES {
                return Due::Never;
            }
            if self.next_sample > now {
                return Due::At(self.next_sample);
            }
        }
        self.is_requested = true;
        Due::Now
    }
}

/// When the next sample is due, unless something happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::linger) enum Due {
    Now,
    At(Timestamp),
    Never,
}
