//! Runs reads of a pod's processes on threads that may wait, so that nothing else waits for the pod.
//!
//! A process that exits during a read of its `stat`, `status` or `mountinfo` leaves its memory and its mounts to the
//! reader, who releases them. That takes 0.06 s per GiB in small pages, and longer where asynchronous I/O or a server
//! has to end first ([`mmput`](https://github.com/torvalds/linux/blob/v6.12/kernel/fork.c)). A read of `mountinfo` also
//! waits for changes of mounts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};
use usher_core::base::id::PodUid;

/// Reads of one pod at the same time.
const POD: usize = 2;
/// Reads of all pods at the same time, also those that do not return.
pub const NODE: usize = 32;
/// The time limit of a read, with the wait for others. An idle node needs microseconds.
const LIMIT: Duration = Duration::from_secs(10);
/// Pods whose reads are counted: more than a node has.
const COUNTED: usize = 1024;

/// The limits of reads. Clones share them.
#[derive(Debug, Clone)]
pub struct Reads {
    node: Arc<Semaphore>,
    pods: Arc<Mutex<HashMap<PodUid, Arc<Semaphore>>>>,
    limit: Duration,
}

/// A read did not return in time. It continues, and counts until it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it did not return within {} s", LIMIT.as_secs())]
pub struct Late;

impl Default for Reads {
    fn default() -> Self {
        Self {
            node: Arc::new(Semaphore::new(NODE)),
            pods: Arc::default(),
            limit: LIMIT,
        }
    }
}

impl Reads {
    /// Runs a read of a pod's processes.
    ///
    /// # Errors
    /// [`Late`]
    #[expect(
        clippy::disallowed_methods,
        reason = "a starting container is read many times within milliseconds, so threads are used again"
    )]
    pub async fn run<T: Send + 'static>(
        &self,
        pod: &PodUid,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Late> {
        let done = async {
            let permits = self.permits(pod).await?;
            let read = spawn_blocking(move || {
                let done = read();
                drop(permits);
                done
            });
            read.await.ok()
        };
        timeout(self.limit, done).await.ok().flatten().ok_or(Late)
    }

    /// The pod's permit first, so that one that waits for its pod keeps no permit of the node.
    async fn permits(&self, pod: &PodUid) -> Option<[OwnedSemaphorePermit; 2]> {
        let own = self.of_pod(pod).acquire_owned().await.ok()?;
        let node = Arc::clone(&self.node).acquire_owned().await.ok()?;
        Some([own, node])
    }

    fn of_pod(&self, pod: &PodUid) -> Arc<Semaphore> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if pods.len() >= COUNTED && !pods.contains_key(pod) {
            pods.retain(|_pod, reads| {
                Arc::strong_count(reads) > 1 || reads.available_permits() < POD
            });
        }
        let reads = pods
            .entry(pod.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(POD)));
        Arc::clone(reads)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pod(number: u8) -> PodUid {
        PodUid::parse(&format!("0a1b2c3d-0000-4000-8000-{number:012}")).unwrap()
    }

    #[tokio::test]
    async fn reads_that_do_not_return_delay_only_their_pod() {
        let reads = Reads {
            limit: Duration::from_millis(50),
            ..Reads::default()
        };
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        for _stuck in 0..POD {
            let ended = Arc::clone(&ended);
            let stuck = move || ended.lock().unwrap().recv().is_ok();
            assert_eq!(reads.run(&pod(1), stuck).await, Err(Late));
        }
        let never = || panic!("there are enough threads in this pod");
        assert_eq!(reads.run::<()>(&pod(1), never).await, Err(Late));
        assert_eq!(reads.run(&pod(2), || 7).await, Ok(7));
        drop(end);
        let patient = Reads {
            limit: LIMIT,
            ..reads
        };
        assert_eq!(patient.run(&pod(1), || 8).await, Ok(8));
    }

    #[tokio::test]
    async fn pods_without_reads_are_not_counted_for_ever() {
        let reads = Reads::default();
        for number in 0..=u8::MAX {
            for letter in ["a", "b", "c", "d", "e"] {
                let uid = format!("0a1b2c3d-0000-4000-800{letter}-{number:012}");
                let pod = PodUid::parse(&uid).unwrap();
                assert_eq!(reads.run(&pod, || ()).await, Ok(()));
            }
        }
        assert!(reads.pods.lock().unwrap().len() <= COUNTED);
    }
}
