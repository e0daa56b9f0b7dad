//! Limits of jobs by network namespace and for the node, and jobs that do not return.
//!
//! System calls in a pod's namespace run on threads of their own. A thread that does not return keeps the permits of its
//! namespace, so that no second one follows it there, but not the node's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};
use usher_core::{
    base::id::NetnsId,
    worker::{
        Trouble,
        message::{MARGIN, Reply},
    },
};

use super::{replies::Replies, rules::Cache};

/// Requests in one namespace at the same time.
const REQUESTS: usize = 2;
/// Requests at the same time, without those that are stuck. There are at most as many changes as namespaces.
pub(super) const NODE: usize = 256;
/// Namespaces with a cached check of their rules: more than a node has pods.
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
    netns: NetnsId,
    requests: Semaphore,
    changes: Semaphore,
    pub(super) rules: Cache,
}

/// A kind of job. Each has its own limit, so that a request that waits for its response does not delay a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    /// A change of the table, or the packets of a release.
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

    /// Runs system calls on a thread of their own, as soon as the limits allow. None where they do not within `limit`, or
    /// the job panicked.
    ///
    /// When the calls do not return within `limit` and a margin, the namespace is reported as stuck, and again when they
    /// have returned.
    #[expect(
        clippy::disallowed_methods,
        reason = "the pool's threads are meant to outlive the work: the next request finds one"
    )]
    pub(super) async fn run<T: Send + 'static>(
        &self,
        lane: &Lane,
        kind: Kind,
        limit: Duration,
        calls: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = async {
            let own = lane.permits(kind).acquire().await.ok()?;
            let node = match kind {
                Kind::Request => Some(self.node.acquire().await.ok()?),
                Kind::Change => None,
            };
            Some((own, node))
        };
        let (_own, node) = timeout(limit, permits).await.ok()??;
        let mut done = spawn_blocking(calls);
        if let Ok(returned) = timeout(limit + MARGIN, &mut done).await {
            return returned.ok();
        }
        drop(node);
        let netns = lane.netns;
        self.trouble(lane, Trouble::Stuck).await;
        let returned = done.await;
        self.replies.send(Reply::Recovered { netns }).await;
        returned.ok()
    }

    pub(super) async fn trouble(&self, lane: &Lane, trouble: Trouble) {
        let netns = lane.netns;
        tracing::warn!(%netns, %trouble, "left a network namespace alone");
        self.replies.send(Reply::Troubled { netns, trouble }).await;
    }
}

impl Lane {
    fn new(netns: NetnsId) -> Self {
        Self {
            netns,
            requests: Semaphore::new(REQUESTS),
            changes: Semaphore::new(1),
            rules: Cache::default(),
        }
    }

    fn permits(&self, kind: Kind) -> &Semaphore {
        match kind {
            Kind::Request => &self.requests,
            Kind::Change => &self.changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::{sync::mpsc, time::Instant};

    use super::*;

    const LIMIT: Duration = Duration::from_millis(20);

    fn netns(ino: u64) -> NetnsId {
        NetnsId { dev: 4, ino }
    }

    fn lanes() -> (Lanes, mpsc::Receiver<Reply>) {
        let (replies, receiver) = Replies::new();
        (Lanes::new(replies), receiver)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_stuck_call_is_reported_and_delays_its_namespace_only() {
        let (lanes, mut replies) = lanes();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (stuck, other) = (lanes.lane(netns(1)), lanes.lane(netns(2)));
        let first = {
            let (lanes, lane) = (lanes.clone(), Arc::clone(&stuck));
            tokio::spawn(async move {
                let calls = move || wait.recv().is_ok();
                lanes.run(&lane, Kind::Change, LIMIT, calls).await
            })
        };
        let reply = replies.recv().await.unwrap();
        let troubled = Reply::Troubled {
            netns: netns(1),
            trouble: Trouble::Stuck,
        };
        assert_eq!(reply, troubled);
        let begun = Instant::now();
        assert_eq!(lanes.run(&other, Kind::Change, LIMIT, || 7).await, Some(7));
        assert!(begun.elapsed() < LIMIT);
        // A second change in the stuck namespace gets no thread; a request still does.
        assert_eq!(lanes.run(&stuck, Kind::Change, LIMIT, || 7).await, None);
        assert_eq!(lanes.run(&stuck, Kind::Request, LIMIT, || 7).await, Some(7));
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Some(true));
        let recovered = Reply::Recovered { netns: netns(1) };
        assert_eq!(replies.recv().await.unwrap(), recovered);
        assert_eq!(lanes.run(&stuck, Kind::Change, LIMIT, || 7).await, Some(7));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn stuck_calls_do_not_take_the_permits_of_the_node() {
        let (lanes, mut replies) = lanes();
        let mut stuck = Vec::new();
        for ino in 0..4 {
            let (release, wait) = std::sync::mpsc::channel::<()>();
            let (lanes, lane) = (lanes.clone(), lanes.lane(netns(ino)));
            tokio::spawn(async move {
                lanes
                    .run(&lane, Kind::Request, LIMIT, move || wait.recv())
                    .await
            });
            stuck.push(release);
        }
        for _ in 0..4 {
            replies.recv().await.unwrap();
        }
        assert_eq!(lanes.node.available_permits(), NODE);
        drop(stuck);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_job_that_panics_has_no_result() {
        let (lanes, _replies) = lanes();
        let lane = lanes.lane(netns(1));
        let panics = || -> u32 {
            thread::current()
                .name()
                .map_or(0, |_name| panic!("expected"))
        };
        assert_eq!(lanes.run(&lane, Kind::Change, LIMIT, panics).await, None);
    }

    #[test]
    fn lanes_that_are_not_used_are_forgotten() {
        let (lanes, _replies) = lanes();
        let kept = lanes.lane(netns(0));
        for ino in 1..3000 {
            lanes.lane(netns(ino));
        }
        assert!(lanes.all.lock().unwrap().len() <= CACHED);
        assert!(Arc::ptr_eq(&kept, &lanes.lane(netns(0))));
    }
}
