//! The agent's side of the worker: jobs and their replies, deadlines, and the quarantine.

mod reply;
mod unsent;

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::{Duration, Instant},
};

use tokio::{task::yield_now, time::sleep_until};
use usher_client::{
    backoff::{self, Backoff},
    error_chain::chain,
};
use usher_core::{
    Event,
    base::{
        id::{NetnsId, PodUid, SandboxId},
        time::Timestamp,
    },
    engine::event::Subject,
    worker::{
        QuarantineReason,
        message::{Job, JobId, LONGEST_MESSAGE, Order, Reply},
        quarantine::{Quarantine, THREAD_EXTENSIONS},
    },
};
use usher_sys::process::child::{ChildProcess, Launch};

pub(crate) use self::unsent::Descriptor;
use self::unsent::{Unsent, send_first};
use super::pending::{Pending, PendingJobs, Purpose};
use crate::telemetry::reporter::Reporter;

/// Limit of jobs that are queued or wait for a reply. Probes are counted separately, with the same limit. Further ones
/// fail.
const MAX_JOBS: usize = 4096;
/// Messages for the worker that are queued.
const MAX_UNSENT: usize = 2 * MAX_JOBS;
/// Probes of one namespace that are always sent, so that others leave room for it: more than most pods have.
const PROBES_OF_POD: usize = 8;
/// Jobs of one namespace that wait for a reply, so that one pod leaves room for the others: more than a pod has
/// probes. Further ones fail.
const MAX_JOBS_OF_POD: usize = 192;
/// How late a reply of the worker may be.
const LATE: Duration = Duration::from_secs(2);
/// A worker that waited this long for a processor since the last overdue reply was starved, if that reply was recent.
const STARVED: Duration = Duration::from_secs(1);
const RECENT: Duration = Duration::from_secs(60);

/// A message of the worker, or its end.
#[derive(Debug)]
pub(crate) enum News {
    Event(Event),
    /// The table of an earlier worker was adopted, or is missing.
    Readopted(SandboxId, Result<bool, String>),
    /// The worker has ended. Its successor must adopt every table.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Worker {
    launch: Launch,
    reporter: Reporter,
    /// The start of the agent's timestamps.
    started: Instant,
    running: Option<ChildProcess>,
    /// When a reply was last overdue, or the worker was started, and how long the worker had waited for a processor then.
    run_delay: (Instant, Duration),
    backoff: Backoff,
    last_id: u64,
    jobs: PendingJobs,
    unsent: VecDeque<Unsent>,
    quarantine: Quarantine,
    /// The subject of the last job in each namespace.
    subjects: BTreeMap<NetnsId, Subject>,
    news: VecDeque<News>,
    /// For a received message. Kept, because mapping its memory takes longer than a message.
    buffer: Vec<u8>,
}

impl Worker {
    pub(crate) fn new(launch: Launch, started: Instant, reporter: Reporter) -> Self {
        Self {
            launch,
            reporter,
            started,
            running: None,
            run_delay: (started, Duration::ZERO),
            backoff: Backoff::default(),
            last_id: 0,
            jobs: PendingJobs::default(),
            unsent: VecDeque::new(),
            quarantine: Quarantine::default(),
            subjects: BTreeMap::new(),
            news: VecDeque::new(),
            buffer: vec![0; LONGEST_MESSAGE],
        }
    }

    /// Sends a job, or reports the event of its failure.
    pub(crate) fn send(
        &mut self,
        netns: NetnsId,
        purpose: Purpose,
        job: Job,
        descriptors: Vec<Descriptor>,
    ) {
        let subject = purpose.subject();
        if let Subject::Container(key) = &subject {
            self.used_by(netns, &key.pod);
        }
        match self.quarantine.reason(self.now(), netns) {
            // Always sent, because it closes descriptors.
            Some(_) if matches!(job, Job::Forget { .. }) => {}
            // Always sent, because a release needs no packet.
            Some(QuarantineReason::CostlyRules)
                if matches!(job, Job::ReleasePorts { .. } | Job::ReleaseAll { .. }) => {}
            Some(reason) => return self.fail(&purpose, &reason.to_string()),
            None => {}
        }
        if matches!(job, Job::Check) && self.running.is_none() {
            // It only saves time later, and its descriptor would keep the namespace alive.
            return;
        }
        if self.has_too_many(netns, &job) {
            if let Purpose::Change(sandbox) = &purpose {
                tracing::warn!(%sandbox, "could not change a sandbox, because too many jobs wait for the worker process; its ports are released at their deadline");
            }
            return self.fail(&purpose, "too many jobs wait for the worker process");
        }
        self.last_id += 1;
        let id = JobId(self.last_id);
        let has_reply = !matches!(job, Job::Check | Job::Forget { .. });
        // Re-adoptions and releases of ports wait for the next worker without a limit: otherwise only the kernel's deadline
        // ends the hold. A search for a table (`Purpose::Look`) keeps its limit, because it runs in every pod.
        let may_wait = self.running.is_none()
            && (matches!(purpose, Purpose::Readopt(_)) || matches!(job, Job::ReleasePorts { .. }));
        // The worker reports a stuck job before: after the wait for a permit, and the limit with its extensions.
        let limits = 2 + u32::from(THREAD_EXTENSIONS);
        let limit = job.limit().map(|limit| limit * limits + LATE);
        let message = match (Order { id, netns, job }).encode() {
            Ok(message) => message,
            Err(error) => return self.fail(&purpose, &chain(&error)),
        };
        self.subjects.insert(netns, subject);
        if self.subjects.len() > MAX_JOBS {
            self.subjects.pop_first();
        }
        if has_reply {
            let due = limit
                .filter(|_| !may_wait)
                .map(|limit| Instant::now() + limit);
            self.jobs.insert(id, netns, purpose, limit, due);
        }
        self.unsent.push_back(Unsent {
            id,
            message,
            descriptors,
        });
        self.flush();
    }

    fn has_too_many(&self, netns: NetnsId, job: &Job) -> bool {
        let unsent = self.unsent.len();
        let is_probe = matches!(job, Job::Probe { .. });
        let is_full = self.jobs.len(is_probe) >= MAX_JOBS || unsent >= MAX_UNSENT;
        match job {
            // The worker closes descriptors for it, and sends no reply.
            Job::Forget { .. } => unsent >= MAX_UNSENT,
            Job::Probe { .. } => {
                let jobs = self.jobs.len_of(netns);
                is_full && jobs >= PROBES_OF_POD || jobs >= MAX_JOBS_OF_POD
            }
            // Probes of a pod do not delay the release of its ports.
            Job::ReleasePorts { .. } | Job::ReleaseAll { .. } => is_full,
            _ => is_full || self.jobs.len_of(netns) >= MAX_JOBS_OF_POD,
        }
    }

    /// Notes the pod of a namespace.
    pub(crate) fn used_by(&mut self, netns: NetnsId, pod: &PodUid) {
        self.quarantine.used_by(netns, pod);
    }

    pub(crate) fn report(&mut self, event: Event) {
        self.news.push_back(News::Event(event));
    }

    /// Drops the probes of a sandbox, which need no replies.
    pub(crate) fn cancel_probes(&mut self, sandbox: &SandboxId) {
        self.jobs
            .remove_all(|purpose| matches!(purpose, Purpose::Probe(of, _probe) if of == sandbox));
    }

    /// Waits for news of the worker, and keeps it running. The future may be dropped at any time.
    pub(crate) async fn next(&mut self) -> News {
        let mut has_polled = false;
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let late = self.jobs.due();
            let Some(running) = &self.running else {
                let due = self.backoff.due(Instant::now());
                tokio::select! {
                    () = sleep_until(due.into()) => self.start(),
                    () = backoff::wait_until(late) => self.expire(),
                }
                continue;
            };
            let received = tokio::select! {
                biased;
                received = running.socket.receive(&mut self.buffer) => received,
                sent = send_first(&running.socket, self.unsent.front()) => match sent {
                    Ok(()) => {
                        self.unsent.pop_front();
                        continue;
                    }
                    Err(error) => Err(error),
                },
                () = backoff::wait_until(late) => {
                    match mem::replace(&mut has_polled, true) {
                        true => self.reply_overdue(),
                        // After a stop of this process timers fire before the runtime polls the sockets: epoll_wait(2)
                        // returns EINTR.
                        false => yield_now().await,
                    }
                    continue;
                }
            };
            match received {
                Ok(Some((length, _descriptors))) => {
                    match Reply::decode(self.buffer.get(..length).unwrap_or_default()) {
                        Ok(reply) => self.received(reply),
                        Err(error) => {
                            tracing::error!(error = %chain(&error), "received an invalid message from the worker process");
                        }
                    }
                }
                Ok(None) => self.ended("it closed its socket"),
                Err(error) => self.ended(&chain(&error)),
            }
        }
    }

    fn start(&mut self) {
        self.backoff.tried(Instant::now());
        match self.launch.start() {
            Ok(running) => {
                tracing::info!(pid = running.pid(), "started the worker process");
                self.running = Some(running);
                self.run_delay = (Instant::now(), Duration::ZERO);
                self.reporter.metrics.worker_up.set(1);
                // It receives these jobs only now: one that is overdue at once would end each new worker.
                self.jobs.restart(Instant::now());
                self.flush();
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "could not start the worker process; trying again");
            }
        }
    }

    /// Sends as many jobs as fit in the socket.
    fn flush(&mut self) {
        let Some(running) = &self.running else {
            return;
        };
        while let Some(first) = self.unsent.front() {
            let descriptors = first.descriptors();
            // After an error, `next` waits until the socket is writable, or receives its end.
            if running
                .socket
                .send_with(&first.message, &descriptors)
                .is_err()
            {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// A reply is late. A worker that waits for a processor, on a busy node, gets more time: its successor would wait as
    /// long, and begin anew.
    fn reply_overdue(&mut self) {
        let Some(running) = &self.running else { return };
        let (now, delay) = (Instant::now(), running.run_delay());
        let (since, before) = mem::replace(&mut self.run_delay, (now, delay));
        // Every worker has waited that long after some hours.
        let is_recent = now - since <= RECENT;
        let was_starved = is_recent && delay.saturating_sub(before) >= STARVED;
        if (running.is_runnable() || was_starved) && self.jobs.extend(now) {
            tracing::debug!("the worker process waits for a processor; its jobs take longer");
            return;
        }
        self.ended("it did not reply in time");
    }

    fn ended(&mut self, reason: &str) {
        tracing::error!(
            reason,
            "the worker process ended; jobs in progress failed, and tables are adopted by the next one"
        );
        if let Some(running) = self.running.take() {
            running.end();
        }
        let metrics = &self.reporter.metrics;
        metrics.worker_up.set(0);
        metrics.worker_exits.inc();
        self.quarantine.worker_ended(self.now());
        self.unsent.clear();
        // The tables that it has not adopted yet are the next one's, as are its probes.
        self.jobs
            .remove_all(|purpose| purpose.adopts() || purpose.is_probe());
        // Before the failures, so that later jobs follow the adoption.
        self.news.push_back(News::Ended);
        self.fail_all(|_pending| true, "the worker process ended");
    }

    /// Fails the jobs that have waited too long for a worker, which shall not receive them any more.
    fn expire(&mut self) {
        let overdue = self.jobs.overdue(Instant::now());
        self.unsent.retain(|unsent| !overdue.contains(&unsent.id));
        for id in overdue {
            if let Some(purpose) = self.jobs.take(id) {
                self.fail(&purpose, "no worker process runs");
            }
        }
    }

    /// Fails these jobs. Returns their number.
    fn fail_all(&mut self, which: impl Fn(&Pending) -> bool, why: &str) -> u64 {
        let failed = self.jobs.take_all(which);
        for purpose in &failed {
            self.fail(purpose, why);
        }
        failed.len() as u64
    }

    fn fail(&mut self, purpose: &Purpose, why: &str) {
        if let Purpose::Readopt(sandbox) = purpose {
            let lost = News::Readopted(sandbox.clone(), Err(why.to_owned()));
            self.news.push_back(lost);
        }
        if let Some(event) = purpose.failure(why) {
            self.report(event);
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::new(self.started.elapsed())
    }
}

#[cfg(test)]
mod tests;
