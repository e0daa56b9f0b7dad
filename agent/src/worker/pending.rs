//! Jobs that wait for the worker's reply, and the purpose of each.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use usher_core::{
    Event,
    base::id::{ContainerKey, NetnsId, SandboxId},
    engine::event::Subject,
    hold::Probe,
    quit::outcome::Outcome,
    worker::message::JobId,
};

/// The purpose of a job. It determines the event of the reply.
#[derive(Debug, Clone)]
pub(crate) enum Purpose {
    /// Checks the rules before an attempt.
    Prepare(ContainerKey),
    Attempt(ContainerKey),
    Drain(ContainerKey),
    QueryVersion(ContainerKey),
    SampleTraffic(ContainerKey),
    Arm(SandboxId),
    /// Look for the table of an earlier agent.
    Look(ContainerKey, SandboxId),
    /// Adopt the table of an earlier worker.
    Readopt(SandboxId),
    Probe(SandboxId, Probe),
    Change(SandboxId),
    ReleaseAll(SandboxId),
}

/// How often the deadline of a job is extended while the worker process waits for a processor.
const MAX_WORKER_EXTENSIONS: u8 = 5;

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) netns: NetnsId,
    pub(super) purpose: Purpose,
    /// How long the reply may take.
    limit: Option<Duration>,
    due: Option<Instant>,
    /// How often it had its limit again.
    extensions: u8,
}

#[derive(Debug, Default)]
pub(super) struct PendingJobs {
    jobs: HashMap<JobId, Pending>,
    /// How many of them are probes.
    probes: usize,
    due: BTreeSet<(Instant, JobId)>,
}

impl PendingJobs {
    /// The number of probes, or of other jobs.
    pub(super) fn len(&self, are_probes: bool) -> usize {
        match are_probes {
            true => self.probes,
            false => self.jobs.len().saturating_sub(self.probes),
        }
    }

    pub(super) fn len_of(&self, netns: NetnsId) -> usize {
        let jobs = self.jobs.values();
        jobs.filter(|pending| pending.netns == netns).count()
    }

    /// The deadline of the next reply.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _id)| *due)
    }

    /// Adds a job. `due` is None where it may wait for a worker, and becomes `limit` after the start of one.
    pub(super) fn insert(
        &mut self,
        id: JobId,
        netns: NetnsId,
        purpose: Purpose,
        limit: Option<Duration>,
        due: Option<Instant>,
    ) {
        self.due.extend(due.map(|due| (due, id)));
        self.probes += usize::from(purpose.is_probe());
        let pending = Pending {
            netns,
            purpose,
            limit,
            due,
            extensions: 0,
        };
        self.jobs.insert(id, pending);
    }

    /// Counts the limits of all jobs from now on.
    pub(super) fn restart(&mut self, now: Instant) {
        self.due.clear();
        for (id, pending) in &mut self.jobs {
            pending.due = pending.limit.map(|limit| now + limit);
            self.due.extend(pending.due.map(|due| (due, *id)));
        }
    }

    pub(super) fn overdue(&self, now: Instant) -> BTreeSet<JobId> {
        let overdue = self.due.iter().take_while(|(due, _id)| *due <= now);
        overdue.map(|(_due, id)| *id).collect()
    }

    /// Removes a job; None if it has already failed.
    pub(super) fn take(&mut self, id: JobId) -> Option<Purpose> {
        let pending = self.jobs.remove(&id)?;
        self.probes -= usize::from(pending.purpose.is_probe());
        if let Some(due) = pending.due {
            self.due.remove(&(due, id));
        }
        Some(pending.purpose)
    }

    /// Removes a job that the worker has done. The next change of the namespace begins only now.
    pub(super) fn done(&mut self, id: JobId, now: Instant) -> Option<Purpose> {
        let netns = self.jobs.get(&id)?.netns;
        let purpose = self.take(id)?;
        if purpose.is_change() {
            self.restart_changes(netns, id, now);
        }
        Some(purpose)
    }

    /// Removes the jobs that are obsolete after the release of a sandbox.
    pub(super) fn released(&mut self, sandbox: &SandboxId, now: Instant) {
        let is_obsolete = |pending: &Pending| pending.purpose.is_hold_of(sandbox);
        let jobs = self.jobs.iter().map(|(id, job)| (*id, job));
        let last = jobs
            .filter(|(_id, job)| is_obsolete(job))
            .max_by_key(|(id, _job)| *id);
        let last = last.map(|(id, job)| (job.netns, id));
        self.remove_all(|purpose| purpose.is_hold_of(sandbox));
        if let Some((netns, id)) = last {
            self.restart_changes(netns, id, now);
        }
    }

    /// Counts the limits of a namespace's changes after this one from now on: they run one after the other.
    fn restart_changes(&mut self, netns: NetnsId, after: JobId, now: Instant) {
        let waits = |id: JobId, pending: &Pending| {
            id > after && pending.netns == netns && pending.purpose.is_change()
        };
        self.postpone(waits, now);
    }

    /// Counts the limits of overdue jobs from now on. Returns whether they may have them again.
    pub(super) fn extend(&mut self, now: Instant) -> bool {
        let overdue = self.overdue(now);
        for id in &overdue {
            let Some(pending) = self.jobs.get_mut(id) else {
                continue;
            };
            if pending.extensions == MAX_WORKER_EXTENSIONS {
                return false;
            }
            pending.extensions += 1;
        }
        self.postpone(|id, _pending| overdue.contains(&id), now);
        true
    }

    /// Counts the limits of these jobs from now on. Those that wait for a worker have none yet.
    pub(super) fn postpone(&mut self, which: impl Fn(JobId, &Pending) -> bool, now: Instant) {
        let Self { jobs, due, .. } = self;
        for (id, pending) in jobs.iter_mut().filter(|(id, pending)| which(**id, pending)) {
            let Some(before) = pending.due else { continue };
            due.remove(&(before, *id));
            pending.due = pending.limit.map(|limit| now + limit);
            due.extend(pending.due.map(|due| (due, *id)));
        }
    }

    /// Removes these jobs, in sending order.
    pub(super) fn take_all(&mut self, which: impl Fn(&Pending) -> bool) -> Vec<Purpose> {
        let mut ids: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(_id, pending)| which(pending))
            .map(|(id, _pending)| *id)
            .collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    pub(super) fn remove_all(&mut self, which: impl Fn(&Purpose) -> bool) {
        let Self { jobs, probes, due } = self;
        jobs.retain(|id, pending| {
            let goes = which(&pending.purpose);
            *probes -= usize::from(goes && pending.purpose.is_probe());
            if let (true, Some(at)) = (goes, pending.due) {
                due.remove(&(at, *id));
            }
            !goes
        });
    }
}

impl Purpose {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Self::Prepare(key)
            | Self::Attempt(key)
            | Self::Drain(key)
            | Self::QueryVersion(key)
            | Self::SampleTraffic(key)
            | Self::Look(key, _) => Subject::Container(key.clone()),
            Self::Arm(sandbox)
            | Self::Readopt(sandbox)
            | Self::Probe(sandbox, _)
            | Self::Change(sandbox)
            | Self::ReleaseAll(sandbox) => Subject::Sandbox(sandbox.clone()),
        }
    }

    /// The event of a failure. Changes of a table have none, because the hold has a deadline.
    pub(super) fn failure(&self, why: &str) -> Option<Event> {
        let why = why.to_owned();
        let event = match self.clone() {
            Self::Attempt(key) => Event::Attempted {
                key,
                outcome: Outcome::Failed(why),
            },
            Self::Drain(key) => Event::Drained {
                key,
                outcome: Outcome::Failed(why),
            },
            Self::QueryVersion(key) => Event::VersionAnswered { key, version: None },
            Self::SampleTraffic(key) => Event::TrafficSampled {
                key,
                sample: Err(why),
            },
            Self::Arm(sandbox) => Event::Armed {
                sandbox,
                result: Err(why),
            },
            Self::Look(key, _sandbox) => Event::NotFound { key },
            Self::ReleaseAll(sandbox) => Event::Released {
                sandbox,
                result: Err(why),
            },
            Self::Probe(sandbox, probe) => Event::ProbeFailed { sandbox, probe },
            Self::Prepare(_) | Self::Readopt(_) | Self::Change(_) => return None,
        };
        Some(event)
    }

    pub(super) const fn is_probe(&self) -> bool {
        matches!(self, Self::Probe(..))
    }

    /// Whether the job changes or adopts a table. The changes of a namespace run one after the other.
    pub(super) fn is_change(&self) -> bool {
        match self {
            Self::Arm(_)
            | Self::Look(..)
            | Self::Readopt(_)
            | Self::Change(_)
            | Self::ReleaseAll(_) => true,
            Self::Prepare(_)
            | Self::Attempt(_)
            | Self::Drain(_)
            | Self::QueryVersion(_)
            | Self::SampleTraffic(_)
            | Self::Probe(..) => false,
        }
    }

    /// Whether the job adopts a table.
    pub(super) fn adopts(&self) -> bool {
        matches!(self, Self::Look(..) | Self::Readopt(_))
    }

    /// Whether the job is obsolete after the release of this sandbox.
    pub(super) fn is_hold_of(&self, sandbox: &SandboxId) -> bool {
        match self {
            Self::Probe(of, _) | Self::Change(of) | Self::ReleaseAll(of) => of == sandbox,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use usher_core::base::id::{ContainerId, PodUid};

    use super::*;

    /// A pod with slow rules must not make the worker look stuck by its number of changes.
    #[test]
    fn changes_of_a_namespace_are_limited_one_after_the_other() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let limit = Some(Duration::from_secs(6));
        let sandbox = |id: &str| SandboxId::parse(id).unwrap();
        let (slow, other) = (sandbox("5a"), sandbox("5b"));
        let netns = |ino| NetnsId { dev: 4, ino };
        let mut jobs = PendingJobs::default();
        let mut change = |id, purpose, ino| {
            jobs.insert(JobId(id), netns(ino), purpose, limit, Some(after(6)));
        };
        change(1, Purpose::Change(slow.clone()), 1);
        change(2, Purpose::ReleaseAll(slow.clone()), 1);
        change(3, Purpose::Arm(slow.clone()), 1);
        change(4, Purpose::Change(other), 2);
        jobs.done(JobId(1), after(5)).unwrap();
        assert_eq!(jobs.overdue(after(10)), BTreeSet::from([JobId(4)]));
        assert_eq!(jobs.overdue(after(11)).len(), 3);
        jobs.released(&slow, after(10));
        assert_eq!(jobs.overdue(after(15)), BTreeSet::from([JobId(4)]));
        assert_eq!(
            jobs.overdue(after(16)),
            BTreeSet::from([JobId(3), JobId(4)])
        );
        jobs.done(JobId(4), after(16)).unwrap();
        assert_eq!(jobs.due(), Some(after(16)));
    }

    /// The worker reports about every second that it still waits.
    #[test]
    fn limit_of_a_late_job_is_postponed() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let limit = Some(Duration::from_secs(4));
        let sandbox = SandboxId::parse("5a").unwrap();
        let netns = NetnsId { dev: 4, ino: 1 };
        let mut jobs = PendingJobs::default();
        let readopt = || Purpose::Readopt(sandbox.clone());
        jobs.insert(JobId(1), netns, readopt(), limit, Some(after(4)));
        // It waits for a worker.
        jobs.insert(JobId(2), netns, readopt(), limit, None);
        jobs.insert(
            JobId(3),
            netns,
            Purpose::Arm(sandbox.clone()),
            limit,
            Some(after(4)),
        );
        jobs.postpone(|_id, pending| pending.purpose.adopts(), after(1));
        assert_eq!(jobs.overdue(after(4)), BTreeSet::from([JobId(3)]));
        assert_eq!(jobs.overdue(after(5)), BTreeSet::from([JobId(1), JobId(3)]));
    }

    /// On a busy node. A worker that never replies is replaced nevertheless.
    #[test]
    fn limit_of_an_overdue_job_is_extended_a_few_times() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let limit = Some(Duration::from_secs(4));
        let readopt = || Purpose::Readopt(SandboxId::parse("5a").unwrap());
        let netns = NetnsId { dev: 4, ino: 1 };
        let mut jobs = PendingJobs::default();
        jobs.insert(JobId(1), netns, readopt(), limit, Some(after(4)));
        jobs.insert(JobId(2), netns, readopt(), limit, Some(after(5)));
        let (mut at, mut times) = (after(4), 0);
        while jobs.extend(at) {
            assert_eq!(jobs.overdue(at), BTreeSet::new());
            jobs.take(JobId(2));
            (at, times) = (jobs.due().unwrap(), times + 1);
        }
        assert_eq!((at, times), (after(24), 5));
    }

    #[test]
    fn limits_count_from_the_start_of_the_worker() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let key = ContainerKey {
            pod: PodUid::parse(&"1".repeat(32)).unwrap(),
            id: ContainerId::parse(&"c0".repeat(32)).unwrap(),
        };
        let sandbox = SandboxId::parse("5a").unwrap();
        let netns = NetnsId { dev: 4, ino: 1 };
        let limit = Some(Duration::from_secs(4));
        let mut jobs = PendingJobs::default();
        let attempt = Purpose::Attempt(key);
        jobs.insert(JobId(1), netns, attempt, limit, Some(after(4)));
        let readopt = Purpose::Readopt(sandbox);
        jobs.insert(JobId(2), netns, readopt, limit, None);
        assert_eq!(jobs.due(), Some(after(4)));
        assert_eq!(jobs.overdue(after(3)), BTreeSet::new());
        assert_eq!(jobs.overdue(after(4)), BTreeSet::from([JobId(1)]));
        jobs.restart(after(6));
        assert_eq!(jobs.overdue(after(9)), BTreeSet::new());
        assert_eq!(
            jobs.overdue(after(10)),
            BTreeSet::from([JobId(1), JobId(2)])
        );
        jobs.take(JobId(1)).unwrap();
        jobs.take(JobId(2)).unwrap();
        assert_eq!(jobs.due(), None);
    }
}
