//! The replies of the worker, as events of the engine.

use std::time::Instant;

use usher_core::{
    Event,
    base::id::NetnsId,
    worker::{QuarantineReason, message::Reply},
};

use super::{News, Worker};
use crate::worker::pending::{Pending, Purpose};

impl Worker {
    pub(super) fn received(&mut self, reply: Reply) {
        match reply {
            Reply::Attempted { id, outcome } => match self.jobs.done(id, Instant::now()) {
                Some(Purpose::Attempt(key)) => self.report(Event::Attempted { key, outcome }),
                Some(Purpose::Drain(key)) => self.report(Event::Drained { key, outcome }),
                _ => {}
            },
            Reply::Answered { id, version } => {
                if let Some(Purpose::QueryVersion(key)) = self.jobs.done(id, Instant::now()) {
                    self.report(Event::VersionAnswered { key, version });
                }
            }
            Reply::TrafficSampled { id, sample } => {
                if let Some(Purpose::SampleTraffic(key)) = self.jobs.done(id, Instant::now()) {
                    self.report(Event::TrafficSampled { key, sample });
                }
            }
            Reply::Armed { id, result } => {
                if let Some(Purpose::Arm(sandbox)) = self.jobs.done(id, Instant::now()) {
                    self.report(Event::Armed { sandbox, result });
                }
            }
            Reply::Adopted { id, result } => match self.jobs.done(id, Instant::now()) {
                Some(Purpose::Look(key, sandbox)) => match result {
                    Ok(remains) => self.report(Event::Found {
                        key,
                        sandbox,
                        remains,
                    }),
                    Err(error) => {
                        tracing::warn!(error, uid = %key.pod, "could not read a pod's network namespace; connections that an earlier agent holds there are released at their deadline");
                        self.report(Event::NotFound { key });
                    }
                },
                Some(Purpose::Readopt(sandbox)) => {
                    let is_there = result.map(|remains| remains.is_some());
                    self.news.push_back(News::Readopted(sandbox, is_there));
                }
                _ => {}
            },
            Reply::ProbeSucceeded { id } => {
                if let Some(Purpose::Probe(sandbox, probe)) = self.jobs.done(id, Instant::now()) {
                    self.report(Event::Ready { sandbox, probe });
                }
            }
            Reply::Done { id } => drop(self.jobs.done(id, Instant::now())),
            Reply::Released { sandbox, result } => {
                self.jobs.released(&sandbox, Instant::now());
                self.report(Event::Released { sandbox, result });
            }
            Reply::Late { netns, is_change } => self.late(netns, is_change),
            Reply::Quarantined { netns, reason } => self.quarantined(netns, reason),
            Reply::Recovered { netns } => self.quarantine.recovered(self.now(), netns),
        }
    }

    fn late(&mut self, netns: NetnsId, is_change: bool) {
        let failed = match is_change {
            true => self.late_change(netns),
            // A late request has a reply of its own.
            false => 1,
        };
        self.reporter.metrics.late_jobs.inc_by(failed);
    }

    /// Fails the changes of a namespace, which run one after the other. Returns their number.
    fn late_change(&mut self, netns: NetnsId) -> u64 {
        let adopts = |pending: &Pending| pending.netns == netns && pending.purpose.adopts();
        // The worker completes an adoption in any case: a table that is given up here would be deleted afterwards.
        // While it waits, the worker reports it as late again and again.
        self.jobs
            .postpone(|_id, pending| adopts(pending), Instant::now());
        self.fail_all(
            |pending| pending.netns == netns && pending.purpose.is_change() && !adopts(pending),
            "an earlier system call in the pod's network namespace did not return in time",
        )
    }

    fn quarantined(&mut self, netns: NetnsId, reason: QuarantineReason) {
        let is_new = self.quarantine.begin(self.now(), netns, reason);
        if let Some(subject) = self.subjects.get(&netns).filter(|_| is_new) {
            let subject = subject.clone();
            self.report(Event::Quarantined { subject, reason });
        }
        let why = reason.to_string();
        self.fail_all(|pending| pending.netns == netns, &why);
    }
}
