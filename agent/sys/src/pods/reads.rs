//! Runs reads of a pod's processes on threads that may wait, so that nothing else waits for the pod.
//!
//! A process that exits during a read of its `stat`, `status` or `mountinfo` leaves its memory and its mounts to the
//! reader, who releases them. That takes 0.06 s per GiB in small pages, and longer where asynchronous I/O or a server
//! has to end first ([`mmput`](https://github.com/torvalds/linux/blob/v6.12/kernel/fork.c)). A read of `mountinfo` also
//! waits for changes of mounts.

use std::{
    collections::HashMap,
    fmt,
    future::pending,
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};
use usher_core::base::id::PodUid;

/// From this length on mounts are long: some 800, more than containers have.
pub const LONG_MOUNTS: usize = 256 * 1024;
/// How much of the mounts of a container is read. One that mounts the root of a full node has up to 2 MiB before the mount
/// that names it. One that may mount can have 100,000 (`fs.mount-max`) of 30 kB each, but the mounts of its runtime come
/// first.
pub const ALL_MOUNTS: usize = 4 * 1024 * 1024;

/// Reads of one pod at the same time.
const POD: usize = 2;
/// Reads of all pods at the same time, without those that are late.
const NODE: usize = 32;
/// Late reads of all pods. Each keeps a thread with some 32 KiB, and nothing from other pods.
const NODE_LATE: usize = 256;
/// Of these, reads that need much memory or time: more than those of one pod.
const LONG: usize = POD + 1;
/// Late reads of [`LONG`]. Each may keep [`ALL_MOUNTS`].
const LONG_LATE: usize = 4;
/// After this time, with the wait for others, a read is late. An idle node needs microseconds.
const LATE: Duration = Duration::from_secs(10);
/// Pods whose reads are counted: more than a node has.
const COUNTED: usize = 1024;
/// Virtual size of a thread's stack; most pages stay unused.
const STACK: usize = 512 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    /// The read needs much memory or time.
    Long,
}

/// The limits of reads. Clones share them.
#[derive(Clone)]
pub struct Reads {
    node: Arc<Semaphore>,
    late: Arc<Semaphore>,
    long: Arc<Semaphore>,
    long_late: Arc<Semaphore>,
    pods: Arc<Mutex<HashMap<PodUid, Arc<Semaphore>>>>,
    prepare: fn(),
    report: Arc<dyn Fn(&PodUid) + Send + Sync>,
    limit: Duration,
}

/// A permit of the node, and the semaphore of the one that a late read has instead.
type NodePermit = (OwnedSemaphorePermit, Arc<Semaphore>);

impl Reads {
    /// Each thread first calls `prepare`; `report` reports a read that is late. It continues.
    pub fn new(prepare: fn(), report: impl Fn(&PodUid) + Send + Sync + 'static) -> Self {
        Self {
            node: Arc::new(Semaphore::new(NODE)),
            late: Arc::new(Semaphore::new(NODE_LATE)),
            long: Arc::new(Semaphore::new(LONG)),
            long_late: Arc::new(Semaphore::new(LONG_LATE)),
            pods: Arc::default(),
            prepare,
            report: Arc::new(report),
            limit: LATE,
        }
    }

    /// For a paused clock, which would advance to the limit while a thread reads: without that, each read is late.
    #[cfg(test)]
    pub(super) fn on_paused_clock() -> Self {
        Self {
            limit: Duration::ZERO,
            ..Self::new(|| {}, |_pod| {})
        }
    }

    /// Runs a read of a pod's processes.
    ///
    /// # Errors
    /// No thread can be started, or the read panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        pod: &PodUid,
        length: Length,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let mut read = pin!(self.start(pod, length, read));
        if let Ok(done) = timeout(self.limit, &mut read).await {
            return done;
        }
        (self.report)(pod);
        read.await
    }

    async fn start<T: Send + 'static>(
        &self,
        pod: &PodUid,
        length: Length,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (own, node) = self.permits(pod, length).await.map_err(io::Error::other)?;
        let node: Vec<_> = node
            .into_iter()
            .map(|permit| self.exchange_when_late(permit))
            .collect();
        let permits = (own, node);
        let (sender, done) = oneshot::channel();
        let prepare = self.prepare;
        thread::Builder::new()
            .name("reads".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                prepare();
                let done = read();
                drop(permits);
                // The container may have ended meanwhile.
                drop(sender.send(done));
            })?;
        done.await.map_err(io::Error::other)
    }

    /// The pod's permit first, so that a read that waits for its pod keeps nothing from others; the node's last.
    async fn permits(
        &self,
        pod: &PodUid,
        length: Length,
    ) -> Result<(OwnedSemaphorePermit, Vec<NodePermit>), AcquireError> {
        let own = self.of_pod(pod).acquire_owned().await?;
        let mut node = Vec::new();
        if length == Length::Long {
            let long = Arc::clone(&self.long).acquire_owned().await?;
            node.push((long, Arc::clone(&self.long_late)));
        }
        let short = Arc::clone(&self.node).acquire_owned().await?;
        node.push((short, Arc::clone(&self.late)));
        Ok((own, node))
    }

    /// Gives the permit to another read when this one is late, even if its caller no longer waits for it. The read has
    /// ended when the sender is dropped.
    fn exchange_when_late(&self, (mut permit, late): NodePermit) -> oneshot::Sender<()> {
        let (running, mut ended) = oneshot::channel();
        let limit = self.limit;
        tokio::spawn(async move {
            if timeout(limit, &mut ended).await.is_err() {
                let exchange = async {
                    if let Ok(late) = late.acquire_owned().await {
                        permit = late;
                    }
                    pending::<()>().await;
                };
                tokio::select! {
                    _ended = &mut ended => {}
                    () = exchange => {}
                }
            }
            drop(permit);
        });
        running
    }

    fn of_pod(&self, pod: &PodUid) -> Arc<Semaphore> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if pods.len() >= COUNTED && !pods.contains_key(pod) {
            // A permit has a reference as well.
            pods.retain(|_pod, reads| Arc::strong_count(reads) > 1);
        }
        let reads = pods
            .entry(pod.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(POD)));
        Arc::clone(reads)
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reads").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use tokio::task::JoinHandle;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn pod(number: u8) -> PodUid {
        PodUid::parse(&format!("0a1b2c3d-0000-4000-8000-{number:012}")).unwrap()
    }

    /// A read that returns when the sender is dropped.
    fn stuck(reads: &Reads, length: Length) -> (mpsc::Sender<()>, JoinHandle<bool>) {
        let (end, ended) = mpsc::channel();
        let reads = reads.clone();
        let read = tokio::spawn(async move {
            let read = move || ended.recv().is_err();
            reads.start(&pod(1), length, read).await.unwrap()
        });
        (end, read)
    }

    #[tokio::test]
    async fn reads_that_do_not_return_delay_only_their_pod() {
        for length in [Length::Short, Length::Long] {
            let late = Arc::new(AtomicUsize::new(0));
            let reported = Arc::clone(&late);
            let reads = Reads {
                limit: Duration::from_millis(20),
                ..Reads::new(
                    || {},
                    move |late| {
                        assert_eq!(*late, pod(1));
                        reported.fetch_add(1, Ordering::Relaxed);
                    },
                )
            };
            let first = [stuck(&reads, length), stuck(&reads, length)];
            let third = tokio::spawn({
                let reads = reads.clone();
                async move { reads.run(&pod(1), Length::Short, || 7).await.unwrap() }
            });
            while late.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(reads.run(&pod(2), Length::Short, || 8).await.unwrap(), 8);
            assert_eq!(reads.run(&pod(2), Length::Long, || 9).await.unwrap(), 9);
            assert!(!third.is_finished());
            for (end, read) in first {
                drop(end);
                assert!(read.await.unwrap());
            }
            assert_eq!(third.await.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn late_reads_of_many_pods_delay_no_other() {
        for (length, number) in [(Length::Short, 2 * NODE), (Length::Long, LONG + 1)] {
            let reads = Reads {
                limit: Duration::from_millis(20),
                ..Reads::new(|| {}, |_pod| {})
            };
            let (end, ended) = mpsc::channel::<()>();
            let ended = Arc::new(Mutex::new(ended));
            let stuck: Vec<_> = (0..number)
                .map(|number| {
                    let (reads, ended) = (reads.clone(), Arc::clone(&ended));
                    tokio::spawn(async move {
                        let pod = pod(u8::try_from(number).unwrap());
                        let read = move || ended.lock().unwrap().recv().is_err();
                        reads.run(&pod, length, read).await.unwrap()
                    })
                })
                .collect();
            while reads.late.available_permits() > NODE_LATE - stuck.len() {
                tokio::task::yield_now().await;
            }
            // Its caller no longer waits for it.
            stuck[0].abort();
            assert_eq!(reads.run(&pod(255), length, || 7).await.unwrap(), 7);
            drop(end);
            while reads.late.available_permits() < NODE_LATE {
                tokio::task::yield_now().await;
            }
            assert_eq!(reads.long_late.available_permits(), LONG_LATE);
        }
    }

    #[tokio::test]
    async fn late_read_waits_for_a_late_permit() {
        let reads = Reads {
            limit: Duration::from_millis(20),
            ..Reads::new(|| {}, |_pod| {})
        };
        let mut stuck: Vec<_> = (0..LONG_LATE + LONG)
            .map(|number| {
                let (end, ended) = mpsc::channel::<()>();
                let reads = reads.clone();
                let read = tokio::spawn(async move {
                    let pod = pod(u8::try_from(number).unwrap());
                    let read = move || ended.recv().is_err();
                    reads.run(&pod, Length::Long, read).await.unwrap()
                });
                (end, read)
            })
            .collect();
        while reads.late.available_permits() > NODE_LATE - stuck.len() {
            tokio::task::yield_now().await;
        }
        assert_eq!(reads.long.available_permits(), 0);
        stuck.remove(0);
        assert_eq!(reads.run(&pod(255), Length::Long, || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn late_long_read_needs_no_short_permit_to_make_room() {
        let reads = Reads {
            limit: Duration::from_millis(20),
            ..Reads::new(|| {}, |_pod| {})
        };
        let all = u32::try_from(NODE_LATE).unwrap();
        let _late = reads.late.acquire_many(all).await.unwrap();
        let (end, read) = stuck(&reads, Length::Long);
        while reads.long.available_permits() == LONG {
            tokio::task::yield_now().await;
        }
        let room = timeout(SOON, reads.long.acquire_many(u32::try_from(LONG).unwrap()));
        drop(room.await.expect("its permit for long reads is free"));
        drop(end);
        assert!(read.await.unwrap());
    }

    #[tokio::test]
    async fn read_that_panics_is_an_error() {
        let reads = Reads::new(|| {}, |_pod| {});
        for _ in 0..=POD {
            let pod = pod(1);
            let read = reads.run(&pod, Length::Short, || panic!("on purpose"));
            assert!(read.await.is_err());
        }
    }

    #[tokio::test]
    async fn pods_without_reads_are_not_counted_for_ever() {
        let reads = Reads::new(|| {}, |_pod| {});
        for number in 0..2 * COUNTED {
            let uid = format!("0a1b2c3d-0000-4000-8000-{number:012}");
            reads.of_pod(&PodUid::parse(&uid).unwrap());
        }
        assert!(reads.pods.lock().unwrap().len() <= COUNTED);
    }
}
