//! Limits jobs by network namespace and for the node, and detects jobs that do not return.
//!
//! System calls in a pod's namespace run on threads that the runtime replaces. A thread that does not return keeps the permit of its
//! namespace, so that no other thread gets stuck there, but not the node's. Its processor time shows whether the pod's
//! rules are the cause ([`Lateness`]).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinHandle, block_in_place},
    time::{Instant, timeout},
};
use usher_core::{
    base::id::NetnsId,
    worker::{
        QuarantineReason,
        message::{MARGIN, Reply},
        quarantine::{LateThread, Lateness, THREAD_EXTENSIONS},
    },
};
use usher_sys::process::thread::Thread;

use super::{replies::Replies, rules::Cache};

/// Requests in one namespace at the same time.
const REQUESTS: usize = 2;
/// Requests of the node at the same time, without stuck ones. The number of namespaces limits changes.
pub(super) const NODE: usize = 256;
/// Namespaces whose last check of rules is cached: more than a node has pods.
const CACHED: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Lanes {
    all: Arc<Mutex<HashMap<NetnsId, Arc<Lane>>>>,
    node: Arc<Semaphore>,
    replies: Replies,
}

/// The jobs of one namespace.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) netns: NetnsId,
    requests: Arc<Semaphore>,
    changes: Arc<Semaphore>,
    pub(super) rules: Cache,
}

/// The thread of a job, and the thread's processor time at the start of the job.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    thread: Thread,
    cpu_time: Duration,
}

/// A job that has its permit, and keeps it until it returns.
struct StartedJob<T> {
    done: JoinHandle<T>,
    /// Empty while the job waits for a thread.
    start: Arc<OnceLock<Sample>>,
    /// The processor time of the job at the last check.
    seen: Duration,
    limit: Duration,
    netns: NetnsId,
    _permit: OwnedSemaphorePermit,
    lanes: Lanes,
}

/// A kind of job. Each has its own limit, so that a request without a response does not delay a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// A change of the table, or the packets after a release.
    Change,
}

impl Lanes {
    pub(super) fn new(replies: Replies) -> Self {
        Self {
            all: Arc::default(),
            node: Arc::new(Semaphore::new(NODE)),
            replies,
        }
    }

    pub(super) fn lane(&self, netns: NetnsId) -> Arc<Lane> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CACHED && !all.contains_key(&netns) {
            all.retain(|_netns, lane| Arc::strong_count(lane) > 1);
        }
        let lane = all
            .entry(netns)
            .or_insert_with(|| Arc::new(Lane::new(netns)));
        Arc::clone(lane)
    }

    /// Runs system calls on a thread of their own, as soon as the limits allow. None if they do not within `limit`, if the
    /// job panics, or if a request is late.
    ///
    /// A job that has not returned within `limit` and a margin is late, unless it waits for a processor. Late changes and
    /// stuck requests continue; the agent fails the jobs that wait for them.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: &Lane,
        kind: Kind,
        limit: Duration,
        calls: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = async {
            let own = lane.permits(kind).acquire_owned().await.ok()?;
            let node = match kind {
                Kind::Request => Some(self.node.acquire().await.ok()?),
                Kind::Change => None,
            };
            Some((own, node))
        };
        let (permit, node) = timeout(limit, permits).await.ok()??;
        let mut job = self.start(lane, permit, limit, calls);
        let lateness = match job.in_time().await {
            Ok(returned) => return returned,
            Err(lateness) => lateness,
        };
        drop(node);
        if lateness == Lateness::Stuck {
            return job.recover().await;
        }
        job.report(kind).await;
        match kind {
            Kind::Change => job.end(kind).await,
            Kind::Request => {
                tokio::spawn(job.end(kind));
                None
            }
        }
    }

    /// Starts a job on the runtime's thread, which another one replaces: the job does not wait until a sleeping thread
    /// runs.
    fn start<T: Send + 'static>(
        &self,
        lane: &Lane,
        permit: OwnedSemaphorePermit,
        limit: Duration,
        calls: impl FnOnce() -> T + Send + 'static,
    ) -> StartedJob<T> {
        let start = Arc::new(OnceLock::new());
        let done = {
            let start = Arc::clone(&start);
            tokio::spawn(async move {
                block_in_place(|| {
                    start.get_or_init(Sample::current);
                    calls()
                })
            })
        };
        StartedJob {
            done,
            start,
            seen: Duration::ZERO,
            limit,
            netns: lane.netns,
            _permit: permit,
            lanes: self.clone(),
        }
    }

    pub(super) async fn report_quarantine(&self, netns: NetnsId, reason: QuarantineReason) {
        tracing::warn!(%netns, %reason, "left a network namespace alone");
        self.replies
            .send(Reply::Quarantined { netns, reason })
            .await;
    }
}

impl Sample {
    fn current() -> Self {
        let thread = Thread::current();
        Self {
            at: Instant::now(),
            thread,
            cpu_time: thread.cpu_time().unwrap_or_default(),
        }
    }
}

impl<T> StartedJob<T> {
    /// The job's result, None after a panic, or why it is late. A job that waits for a processor has its limit again, up
    /// to [`THREAD_EXTENSIONS`] times.
    async fn in_time(&mut self) -> Result<Option<T>, Lateness> {
        let mut extensions = 0;
        loop {
            if let Ok(returned) = timeout(self.limit + MARGIN, &mut self.done).await {
                return Ok(returned.ok());
            }
            let lateness = self.lateness();
            if lateness != Lateness::Starved || extensions == THREAD_EXTENSIONS {
                return Err(lateness);
            }
            extensions += 1;
            tracing::debug!(netns = %self.netns, "a job waits for a processor; it takes longer");
        }
    }

    /// What the thread has done since the last check.
    fn lateness(&mut self) -> Lateness {
        let start = self.start.get();
        let due = start.filter(|start| start.at.elapsed() >= self.limit);
        let thread = due.map(|start| {
            let cpu_time = start.thread.cpu_time().unwrap_or_default();
            let cpu_time = cpu_time.saturating_sub(start.cpu_time);
            let since = cpu_time.saturating_sub(self.seen);
            self.seen = cpu_time;
            LateThread {
                state: start.thread.state(),
                cpu_time: since,
            }
        });
        Lateness::of(thread, self.limit)
    }

    async fn report(&self, kind: Kind) {
        let netns = self.netns;
        tracing::debug!(%netns, ?kind, "a job waits longer than its limit");
        let is_change = kind == Kind::Change;
        let late = Reply::Late { netns, is_change };
        self.lanes.replies.send(late).await;
    }

    /// Waits until the job returns, and checks its thread periodically: a thread that was waiting may get stuck later.
    async fn end(mut self, kind: Kind) -> Option<T> {
        loop {
            if let Ok(returned) = timeout(self.limit + MARGIN, &mut self.done).await {
                return returned.ok();
            }
            if self.lateness() == Lateness::Stuck {
                return self.recover().await;
            }
            // Fails the changes that arrived since the last report.
            if kind == Kind::Change {
                self.report(kind).await;
            }
        }
    }

    /// Reports the namespace as stuck, and as recovered when the job has returned.
    async fn recover(self) -> Option<T> {
        let netns = self.netns;
        self.lanes
            .report_quarantine(netns, QuarantineReason::Stuck)
            .await;
        let returned = self.done.await;
        self.lanes.replies.send(Reply::Recovered { netns }).await;
        returned.ok()
    }
}

impl Lane {
    fn new(netns: NetnsId) -> Self {
        Self {
            netns,
            requests: Arc::new(Semaphore::new(REQUESTS)),
            changes: Arc::new(Semaphore::new(1)),
            rules: Cache::default(),
        }
    }

    fn permits(&self, kind: Kind) -> Arc<Semaphore> {
        match kind {
            Kind::Request => Arc::clone(&self.requests),
            Kind::Change => Arc::clone(&self.changes),
        }
    }
}

#[cfg(test)]
mod tests;
