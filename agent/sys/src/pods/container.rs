//! Follows one container from the creation of its cgroup: its init process, name and end.
//!
//! The runtime needs 20 to 40 ms between the creation of the cgroup and the first instruction of the image. It offers
//! no event in this time, so the processes are polled every few milliseconds. After that nothing is polled until the
//! init process ends.

mod error;
mod init;
mod look;
mod member;
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

use self::pace::Looks;
pub use self::{
    error::Error,
    look::{Look, look},
    member::named_process,
};
use crate::{
    net::netns::{self, Netns},
    pods::{
        pidfd::Pidfd,
        proc::{self, ProcRoot},
    },
};

/// How long a name is looked for in the mounts.
const NAMING: Duration = Duration::from_secs(2);
/// Waits between the looks for a name that is late.
const LATE_MS: [u64; 10] = [5, 5, 10, 10, 20, 50, 100, 200, 500, 1000];
/// Waits between the looks whether the init process has become the image's program, as long as a start may be held.
/// Afterwards it is told by how it ends.
const EXEC_MS: [u64; 11] = [
    10, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 500_000,
];
/// How long a parent may take to reap its child before the exit status is
/// given up.
const REAP: Duration = Duration::from_secs(5);

/// The init process of a container.
#[derive(Debug)]
pub struct Init {
    pub pidfd: Pidfd,
    /// The network namespace that it was in when its container had been set up.
    pub netns: NetnsId,
    /// The container's cgroup, where its other processes are.
    pub cgroup: Arc<Path>,
    /// It was seen to be the image's program.
    executed: AtomicBool,
}

impl Init {
    /// Whether it is known to have become the image's program. One of which it is not may have lived briefly.
    pub fn has_executed(&self) -> bool {
        self.executed.load(Ordering::Relaxed)
    }

    /// Whether it ended before that, as far as is known.
    pub fn never_executed(&self, status: ExitStatus) -> bool {
        usher_core::pod::exit_status::may_be_of_runtime(
            self.has_executed().then_some(true),
            Some(status),
        )
    }
}

/// One container to follow.
#[derive(Debug)]
pub struct Container {
    pub key: ContainerKey,
    pub cgroup: Arc<Path>,
    /// Where processes are looked at.
    pub proc: ProcRoot,
}

impl Container {
    /// Follows the container to its end, and tells what is seen of it. Ends by
    /// itself when the cgroup or the init process is gone.
    ///
    /// A full node has hundreds of these, and all that most do is to wait for an end. Beginning and end have boxes of
    /// their own, and take no room meanwhile.
    ///
    /// # Errors
    /// [`Error`], after which nothing more is told.
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

    /// Until it is known who it is; None when it has ended by then.
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
            // A process that ends leaves its namespaces before anybody is told of its end.
            pidfd.exited().await;
        }
        if named.is_none() || !pidfd.is_alive() {
            // Without a name it lived too short for anybody but the kubelet.
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
        // Closed at once: the container lives as long as it likes.
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
                init.executed.store(true, Ordering::Relaxed);
                report(ContainerChange::Executed, None).await;
            },
        }
        Ok(Some(init))
    }

    /// Waits until a process has become the image's program; false when that takes long, as where its start is held.
    async fn execution(&self, pid: Pid) -> bool {
        let executed = || matches!(self.proc.has_executed(pid), Ok(Some(true)));
        for ms in EXEC_MS {
            if executed() {
                return true;
            }
            sleep(Duration::from_millis(ms)).await;
        }
        executed()
    }

    /// The init process has ended. Whether it was the image's program by then it may report itself until it is reaped, and then
    /// only how it ended.
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
        if let Some(status) = status {
            report(ContainerChange::ExitStatus(status), None).await;
        }
    }

    /// Whether all mounts of a container are made, by those that its process sees with a root of its own.
    fn is_complete(&self, pid: Pid, mounts: &str) -> bool {
        let prepared = mountinfo::has_mount_point_with(mounts, self.key.id.as_str());
        !mounts.is_empty() && !prepared && self.proc.has_own_mounts(pid)
    }

    /// The container's name; None once its mounts are complete and do not report
    /// it, as with a sandbox.
    async fn name(&self, pid: Pid) -> Result<Option<String>, Error> {
        let mut looks = Looks::default();
        let mut complete = 0;
        // A look that meets the change of the root may see neither what was
        // there before nor what comes after; two in a row cannot.
        while complete < 2 && looks.passed < NAMING {
            let mounts = self.proc.own_mountinfo(pid);
            let Some(mounts) = mounts.map_err(|source| self.unreadable(source))? else {
                break;
            };
            if let Some(name) = mountinfo::container_name(&mounts, &self.key.pod) {
                return Ok(Some(name.to_owned()));
            }
            if self.is_complete(pid, &mounts) {
                complete += 1;
            }
            looks.wait().await;
        }
        Ok(None)
    }

    /// Looks for a name a little longer, for runtimes whose mounts look
    /// complete before they are.
    async fn name_late(&self, pid: Pid) -> Option<String> {
        for ms in LATE_MS {
            sleep(Duration::from_millis(ms)).await;
            // What could be read before and cannot now is ending.
            let mounts = self.proc.own_mountinfo(pid).ok()??;
            if let Some(name) = mountinfo::container_name(&mounts, &self.key.pod) {
                return Some(name.to_owned());
            }
        }
        None
    }

    /// The processes of the container; None when its cgroup is gone.
    fn processes(&self) -> Result<Option<Vec<Pid>>, Error> {
        member::processes(&self.cgroup)
    }

    fn unreadable(&self, source: proc::Error) -> Error {
        Error::Proc {
            id: self.key.id.clone(),
            source,
        }
    }
}
