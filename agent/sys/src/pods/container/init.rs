//! Finds the init process of a container. A new cgroup contains the runtime's own processes first.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tokio::time::sleep;
use usher_core::{
    base::id::Pid,
    node::init_process::{self, Candidate},
};

use super::{
    Container, Error,
    error::unreadable,
    member::{self, Levels},
    mounts::Mounts,
    pace::Looks,
};
use crate::pods::{pidfd::Pidfd, reads::Length};

/// How long a container's cgroup may be empty.
const START: Duration = Duration::from_secs(30);
/// How long it may contain only the runtime's processes: longer than the kubelet's timeout of two minutes
/// ([runtimeRequestTimeout](https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/)).
const STAGES: Duration = Duration::from_secs(180);
/// How long a process must have been the oldest one to count as the init process. Applies if it is not pid 1 of a pid
/// namespace and its mounts do not identify it, as in a sandbox whose pod shares its pid namespace. The runtime's own
/// stages end after 1 to 3 ms on an idle node, and after seconds on a busy one, so the process must have left the
/// node's root as well.
const SETTLED: Duration = Duration::from_secs(1);
/// How long processes are read at once, and the pause afterwards. A container may have tens of thousands, and the kernel
/// lists up to 65,536 groups for each.
const TURN: Duration = Duration::from_millis(20);

impl Container {
    /// Finds the init process; None if the cgroup is removed first.
    pub(super) async fn init_process(&self) -> Result<Option<Pidfd>, Error> {
        let mut looks = Looks::default();
        let mut mounts = Mounts::default();
        let mut oldest: Option<(Pid, Duration)> = None;
        let mut shown = Duration::ZERO;
        while looks.passed < STAGES && looks.passed.saturating_sub(shown) < START {
            let Some(candidates) = self.candidates().await? else {
                return Ok(None);
            };
            if !candidates.is_empty() {
                shown = looks.passed;
            }
            let choice = init_process::init_process(&candidates);
            let since = match (choice, oldest) {
                (Some(choice), Some((pid, since))) if pid == choice.pid => since,
                _ => looks.passed,
            };
            oldest = choice.map(|choice| (choice.pid, since));
            if let Some(choice) = choice
                && (choice.certain
                    || self
                        .is_of_image(&mut mounts, choice.pid, looks.passed.saturating_sub(since))
                        .await?)
                && let Some(pidfd) = self.open(choice.pid)?
            {
                return Ok(Some(pidfd));
            }
            looks.wait().await;
        }
        Err(Error::NoProcess(self.key.id.clone()))
    }

    /// The processes of the container that [`Search`] finds; None if its cgroup has been removed.
    async fn candidates(&self) -> Result<Option<Vec<Candidate>>, Error> {
        let first = self.read(Length::Short, |container| {
            let search = Search::begin(&container.cgroup)?;
            search.map(|search| container.turn(search)).transpose()
        });
        let Some(mut search) = first.await?? else {
            return Ok(None);
        };
        while !search.is_over {
            sleep(TURN).await;
            let next = self.read(Length::Long, move |container| container.turn(search));
            search = next.await??;
        }
        Ok(Some(search.found))
    }

    /// Reads processes for one turn.
    fn turn(&self, mut search: Search) -> Result<Search, Error> {
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            let Some(pid) = search.next() else {
                search.is_over = true;
                break;
            };
            let candidate = self.proc.candidate(pid);
            search
                .found
                .extend(candidate.map_err(unreadable(&self.key.id))?);
        }
        Ok(search)
    }

    /// Opens a process; None if it is no longer in the container.
    fn open(&self, pid: Pid) -> Result<Option<Pidfd>, Error> {
        let Some(pidfd) = member::open(pid, &self.key.id)? else {
            return Ok(None);
        };
        // Checked after the open, before which the pid may have been reused.
        let ours = self.proc.is_in(pid, &self.key);
        let ours = ours.map_err(unreadable(&self.key.id))?;
        // If the agent has its own cgroup namespace, the cgroup paths of its own pod are relative to it. `cgroup.procs`
        // is not affected, but lacks a process that has just exited.
        let ours = ours || member::processes(&self.cgroup)?.is_some_and(|pids| pids.contains(&pid));
        Ok(ours.then_some(pidfd))
    }

    /// Whether the oldest process has the container's mounts: mounts that contain its name or, after `SETTLED`, a root
    /// of its own. Only the last stage of the runtime makes them, and that stage becomes the init process.
    async fn is_of_image(
        &self,
        mounts: &mut Mounts,
        pid: Pid,
        oldest: Duration,
    ) -> Result<bool, Error> {
        let judged = mounts.judge(self, pid, move |container, mounts| {
            container.name_in(mounts).is_some()
                || oldest >= SETTLED && container.is_complete(pid, mounts)
        });
        Ok(judged.await? == Some(true))
    }
}

/// A search for the processes that may be the init process: those of the container's cgroup and, as long as none of
/// them is pid 1 of a pid namespace, those of the next level of cgroups below it. A container may have moved its init
/// process there, while an exec'd probe is in its own cgroup.
#[derive(Debug)]
struct Search {
    levels: Levels,
    /// The processes to read.
    rest: Vec<Pid>,
    found: Vec<Candidate>,
    is_over: bool,
}

impl Search {
    fn begin(cgroup: &Path) -> Result<Option<Self>, Error> {
        let levels = Levels::open(cgroup)?;
        Ok(levels.map(|(rest, levels)| Self {
            levels,
            rest,
            found: Vec::new(),
            is_over: false,
        }))
    }

    /// The next process to read.
    fn next(&mut self) -> Option<Pid> {
        while self.rest.is_empty() {
            if self.found.iter().any(Candidate::is_pid_one) {
                return None;
            }
            self.rest = self.levels.next()?;
        }
        self.rest.pop()
    }
}

#[cfg(test)]
mod tests;
