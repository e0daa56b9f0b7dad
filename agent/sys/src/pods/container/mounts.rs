//! Reads the mounts of a container that is being prepared, again and again.
//!
//! The container determines how long they are. Long ones are read with pauses, because changes of mounts on the node
//! wait for a read.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;
use usher_core::base::id::Pid;

use super::{Container, Error, error::unreadable};
use crate::pods::{
    proc,
    reads::{ALL_MOUNTS, LONG_MOUNTS, Length},
};

/// The pause after a read of long mounts, as a multiple of its time.
const PAUSE: u32 = 9;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The reads of one container.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// When long mounts may be read again.
    long: Option<Instant>,
}

impl Mounts {
    /// Judges the mounts of a process, which are empty while it has the root of its parent. None if it has exited.
    pub(super) async fn judge<T: Send + 'static>(
        &mut self,
        container: &Container,
        pid: Pid,
        judge: impl Fn(&Container, &str) -> T + Clone + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let unreadable = unreadable(&container.key.id);
        if self.long.is_none() {
            let read = reader(pid, LONG_MOUNTS, judge.clone());
            match container
                .read(Length::Short, read)
                .await?
                .map_err(unreadable)?
            {
                None => return Ok(None),
                Some((judged, length)) if length < LONG_MOUNTS => return Ok(Some(judged)),
                Some(_) => {}
            }
        }
        if let Some(due) = self.long {
            sleep_until(due.into()).await;
        }
        let begun = Instant::now();
        let read = reader(pid, ALL_MOUNTS, judge);
        let judged = container
            .read(Length::Long, read)
            .await?
            .map_err(unreadable)?;
        Ok(judged.map(|(judged, length)| {
            let pause = LONGEST_PAUSE.min(begun.elapsed() * PAUSE);
            self.long = (length >= LONG_MOUNTS).then(|| Instant::now() + pause);
            judged
        }))
    }
}

/// Judges the first mounts. Also returns how long they are.
fn reader<T>(
    pid: Pid,
    limit: usize,
    judge: impl FnOnce(&Container, &str) -> T,
) -> impl FnOnce(&Container) -> Result<Option<(T, usize)>, proc::Error> {
    move |container| {
        let mounts = container.proc.own_mountinfo(pid, limit)?;
        Ok(mounts.map(|mounts| (judge(container, &mounts), mounts.len())))
    }
}
