//! Reads the mounts of a container that is being prepared, again and again.
//!
//! The container determines how long they are. Long ones are read one container at a time and with pauses, because
//! changes of mounts on the node wait for a read, and a copy of them is large.

use std::time::{Duration, Instant};

use tokio::{sync::Semaphore, time::sleep};
use usher_core::base::id::Pid;

use super::{Container, Error};

/// From this length on mounts are long: some 800, more than containers have.
const LONG: usize = 256 * 1024;
/// Limit of the mounts of a container. One that mounts the root of a full node has up to 2 MiB before the mount that names
/// it. One that may mount can have 100,000 (`fs.mount-max`) of 30 kB each, but the mounts of its runtime come first.
const ALL: usize = 4 * 1024 * 1024;
/// The pause after a read of long mounts, as a multiple of its time.
const PAUSE: u32 = 9;

static LONG_READS: Semaphore = Semaphore::const_new(1);

/// The reads of one container.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    are_long: bool,
}

impl Mounts {
    /// Judges the mounts of a process, which are empty while it has the root of its parent. None if it has exited.
    pub(super) async fn judge<T: Send + 'static>(
        &mut self,
        container: &Container,
        pid: Pid,
        judge: impl Fn(&Container, &str) -> T + Clone + Send + 'static,
    ) -> Result<Option<T>, Error> {
        if !self.are_long {
            match read(container, pid, LONG, judge.clone()).await? {
                None => return Ok(None),
                Some((judged, length)) if length < LONG => return Ok(Some(judged)),
                Some(_) => self.are_long = true,
            }
        }
        let turn = LONG_READS.acquire().await.ok();
        let begun = Instant::now();
        let judged = read(container, pid, ALL, judge).await?;
        // The result does not wait: the container may exit meanwhile.
        let pause = begun.elapsed() * PAUSE;
        tokio::spawn(async move {
            sleep(pause.min(Duration::from_secs(1))).await;
            drop(turn);
        });
        Ok(judged.map(|(judged, length)| {
            self.are_long = length >= LONG;
            judged
        }))
    }
}

/// Judges the first mounts. Also returns how long they are.
async fn read<T: Send + 'static>(
    container: &Container,
    pid: Pid,
    limit: usize,
    judge: impl FnOnce(&Container, &str) -> T + Send + 'static,
) -> Result<Option<(T, usize)>, Error> {
    let judged = container.read(move |container| {
        let mounts = container.proc.own_mountinfo(pid, limit)?;
        Ok(mounts.map(|mounts| (judge(container, &mounts), mounts.len())))
    });
    judged.await?.map_err(|source| container.unreadable(source))
}
