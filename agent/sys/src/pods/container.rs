//! Follows one container from the creation of its cgroup until its end: its init process, name and exit.
//!
//! The runtime needs 20 to 40 ms between the creation of the cgroup and the first instruction of the image. No event
//! reports this phase, so the processes are polled every few milliseconds. Later nothing is polled until the init
//! process exits.

mod error;
mod init;
mod look;
mod member;
mod mounts;
mod pace;

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};
use usher_core::{
    base::id::{ContainerKey, NetnsId, Pid},
    node::mountinfo,
    pod::{container_change::ContainerChange, exit_status::ExitStatus},
};

pub use self::{
    error::Error,
    look::{Look, look},
    member::named_process,
};
use self::{
    mounts::Mounts,
    pace::{Looks, execution_pauses},
};
use crate::{
    net::netns::{self, Netns},
    pods::{
        pidfd::Pidfd,
        proc::ProcRoot,
        reads::{Length, Reads},
    },
};

/// Time limit of the search for a name in the mounts.
const NAMING: Duration = Duration::from_secs(2);
/// Polling intervals for a late name.
const LATE_MS: [u64; 10] = [5, 5, 10, 10, 20, 50, 100, 200, 500, 1000];
/// Time limit for the parent to reap its child. Without a reap the exit status is unknown.
const REAP: Duration = Duration::from_secs(5);

/// The init process of a container.
#[derive(Debug)]
pub struct Init {
    pub pidfd: Pidfd,
    /// The network namespace of the process after the container's setup.
    pub netns: NetnsId,
    /// The container's cgroup, which has its other processes.
    pub cgroup: Arc<Path>,
    /// Whether the process was observed to execute the image's program.
    executed: AtomicBool,
}

impl Init {
    /// Whether the process is known to have executed the image's program. An early exit may hide that.
    pub fn has_executed(&self) -> bool {
        self.executed.load(Ordering::Relaxed)
    }

    /// Records that it has executed the image's program, because it has replied.
    pub fn set_executed(&self) {
        self.executed.store(true, Ordering::Relaxed);
    }

    /// Whether it exited before that, as far as is known.
    pub fn never_executed(&self, status: ExitStatus) -> bool {
        usher_core::pod::exit_status::may_be_of_runtime(
            self.has_executed().then_some(true),
            Some(status),
        )
    }
}

/// One container to follow.
#[derive(Debug, Clone)]
pub struct Container {
    pub key: ContainerKey,
    pub cgroup: Arc<Path>,
    /// The host's `/proc`.
    pub proc: ProcRoot,
    pub reads: Reads,
}

impl Container {
    /// Follows the container until its end and reports its changes. Returns when the cgroup is removed or the init
    /// process has exited.
    ///
    /// A full node has hundreds of these futures, and most only wait for an exit. The phases before and after are
    /// boxed, so that they use no memory during that wait.
    ///
    /// # Errors
    /// [`Error`]; no further changes are then reported.
    pub async fn follow<Report, Reported>(&self, report: Report) -> Result<(), Error>
    where
        Report: Fn(ContainerChange, Option<Arc<Init>>) -> Reported,
        Reported: Future<Output = ()>,
    {
        if let Some(init) = Box::pin(self.begin(&report)).await? {
            init.pidfd.exited().await;
            let executed = init.has_executed().then_some(true);
            Box::pin(self.end(&init.pidfd, executed, &report)).await;
        }
        Ok(())
    }

    /// Follows the container until its init process and name are known; None if it has ended by then.
    async fn begin<Report, Reported>(&self, report: &Report) -> Result<Option<Arc<Init>>, Error>
    where
        Report: Fn(ContainerChange, Option<Arc<Init>>) -> Reported,
        Reported: Future<Output = ()>,
    {
        let found = self.init_process().await;
        if let Err(Error::NoProcess(_)) = found {
            report(ContainerChange::Hidden, None).await;
        }
        let Some(pidfd) = found? else {
            return Ok(None);
        };
        let named = {
            let ended = pidfd.exited();
            tokio::select! {
                biased;
                name = self.name(pidfd.pid()) => Some(name?),
                () = ended => None,
            }
        };
        let netns = Netns::of_process(&self.proc, pidfd.pid());
        if netns.as_ref().is_err_and(netns::Error::is_gone) {
            // A process leaves its namespaces before the kernel reports its exit, so wait for the exit.
            pidfd.exited().await;
        }
        if named.is_none() || !pidfd.is_alive() {
            // If the container ended before its name was read, only the kubelet knows its name.
            if let Some(name) = named.flatten() {
                report(ContainerChange::Named(name), None).await;
            }
            self.end(&pidfd, None, report).await;
            return Ok(None);
        }
        let failed = |source| Error::Netns {
            id: self.key.id.clone(),
            source,
        };
        // The namespace is closed at once, because it would outlive the container.
        let netns = netns.map_err(failed)?.id();
        let init = Arc::new(Init {
            pidfd,
            netns,
            cgroup: Arc::clone(&self.cgroup),
            executed: AtomicBool::new(false),
        });
        let name = named.flatten();
        let nameless = name.is_none();
        report(ContainerChange::Started { name }, Some(Arc::clone(&init))).await;
        if nameless {
            let late = self.name_late(init.pidfd.pid());
            tokio::select! {
                biased;
                () = init.pidfd.exited() => {}
                name = late => if let Some(name) = name {
                    report(ContainerChange::Named(name), None).await;
                },
            }
        }
        tokio::select! {
            biased;
            () = init.pidfd.exited() => {}
            executed = self.execution(init.pidfd.pid()) => if executed {
                init.set_executed();
                report(ContainerChange::Executed, None).await;
            },
        }
        Ok(Some(init))
    }

    /// Reads processes of the container.
    async fn read<T: Send + 'static>(
        &self,
        length: Length,
        read: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let container = self.clone();
        let pod = &self.key.pod;
        let read = self.reads.run(pod, length, move || read(&container));
        read.await.map_err(|source| Error::Thread {
            id: self.key.id.clone(),
            source,
        })
    }

    /// Waits until a process has executed the image's program; false after the last interval, for example if the start
    /// is held.
    async fn execution(&self, pid: Pid) -> bool {
        let executed = async || {
            let read = self.read(Length::Short, move |container| {
                container.proc.has_executed(pid)
            });
            matches!(read.await, Ok(Ok(Some(true))))
        };
        for pause in execution_pauses() {
            if executed().await {
                return true;
            }
            sleep(pause).await;
        }
        executed().await
    }

    /// Reports the exit of the init process. Before the reap, `/proc` shows whether it had executed the image's
    /// program, without a wait: the process has released its memory. Afterwards only the exit status does.
    async fn end<Report, Reported>(&self, pidfd: &Pidfd, executed: Option<bool>, report: &Report)
    where
        Report: Fn(ContainerChange, Option<Arc<Init>>) -> Reported,
        Reported: Future<Output = ()>,
    {
        let executed = executed.or_else(|| self.proc.has_executed(pidfd.pid()).ok().flatten());
        if executed == Some(true) {
            report(ContainerChange::Exited, None).await;
        }
        let status = timeout(REAP, pidfd.reaped()).await.ok().flatten();
        if usher_core::pod::exit_status::may_be_of_runtime(executed, status) {
            return report(ContainerChange::NotStarted, None).await;
        }
        if executed.is_none() {
            report(ContainerChange::Exited, None).await;
        }
        let change = status.map_or(ContainerChange::NoExitStatus, ContainerChange::ExitStatus);
        report(change, None).await;
    }

    /// Whether the container's mounts are complete: its process has its own root, and no mount of the setup is left.
    fn is_complete(&self, pid: Pid, mounts: &str) -> bool {
        let prepared = mountinfo::has_mount_point_with(mounts, self.key.id.as_str());
        !mounts.is_empty() && !prepared && self.proc.has_own_mounts(pid)
    }

    /// The container's name; None if its complete mounts do not contain the name, as in a sandbox.
    async fn name(&self, pid: Pid) -> Result<Option<String>, Error> {
        let mut looks = Looks::default();
        let mut mounts = Mounts::default();
        let mut complete = 0;
        // During the change of the root, one read may return neither the old mounts nor the new ones, but not two
        // consecutive reads.
        while complete < 2 && looks.passed < NAMING {
            let judged = mounts.judge(self, pid, move |container, mounts| {
                let name = container.name_in(mounts);
                let is_complete = name.is_none() && container.is_complete(pid, mounts);
                (name, is_complete)
            });
            let Some((name, is_complete)) = judged.await? else {
                break;
            };
            if name.is_some() {
                return Ok(name);
            }
            complete += usize::from(is_complete);
            looks.wait().await;
        }
        Ok(None)
    }

    fn name_in(&self, mounts: &str) -> Option<String> {
        mountinfo::container_name(mounts, &self.key.pod).map(str::to_owned)
    }

    /// Continues the search for the name, because the mounts of some runtimes look complete too early.
    async fn name_late(&self, pid: Pid) -> Option<String> {
        let mut mounts = Mounts::default();
        for ms in LATE_MS {
            sleep(Duration::from_millis(ms)).await;
            let name = mounts.judge(self, pid, |container, mounts| container.name_in(mounts));
            // A process that is no longer readable is exiting.
            if let Some(name) = name.await.ok()?? {
                return Some(name);
            }
        }
        None
    }
}
