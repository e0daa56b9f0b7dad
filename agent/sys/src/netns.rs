//! Network namespaces: which one a process is in, and sockets of one.
//!
//! This is the only place where usher enters a namespace
//! ([setns(2)](https://man7.org/linux/man-pages/man2/setns.2.html)). It happens
//! on a thread made for it, which opens what is wanted and ends: there is no
//! way back that could fail, and no other code ever runs in there. A socket
//! stays in the namespace that it was opened in, so connecting and talking
//! happen on the ordinary threads.
//!
//! An open namespace, and every socket of one, keeps it alive: close both when
//! the work is done. Needs `CAP_SYS_ADMIN`, and `CAP_SYS_PTRACE` to look at
//! other users' processes.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    thread,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::{
        socket::{AddressFamily, SockFlag, SockType, socket},
        stat::fstat,
    },
};
use usher_core::id::{NetnsId, Pid};

use crate::proc::ProcRoot;

/// Stack of the throw-away thread: it makes two system calls.
const STACK: usize = 64 * 1024;

/// A namespace could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace file could not be opened.
    #[error("opening network namespace {path:?}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The namespace could not be entered.
    #[error("entering {id}")]
    Enter {
        /// The namespace.
        id: NetnsId,
        /// Why.
        source: io::Error,
    },
    /// The socket could not be opened in it.
    #[error("opening a socket in {id}")]
    Socket {
        /// The namespace.
        id: NetnsId,
        /// Why.
        source: io::Error,
    },
    /// No thread could be started to enter it.
    #[error("starting a thread to enter {id}")]
    Thread {
        /// The namespace.
        id: NetnsId,
        /// Why.
        source: io::Error,
    },
}

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    id: NetnsId,
}

impl Netns {
    /// Opens the namespace that a process is in now. That `pid` is the process
    /// that is meant has to be checked after this.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub fn of_process(proc: &ProcRoot, pid: Pid) -> Result<Self, Error> {
        let path = proc.path(pid, "ns/net");
        let open = || -> io::Result<Self> {
            let fd = OwnedFd::from(File::open(&path)?);
            let stat = fstat(&fd)?;
            let id = NetnsId {
                dev: stat.st_dev,
                ino: stat.st_ino,
            };
            Ok(Self { fd, id })
        };
        open().map_err(|source| Error::Open { path, source })
    }

    /// Its identity.
    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// Opens a non-blocking TCP socket in the namespace. Takes about 50 µs, in
    /// which the calling thread waits.
    ///
    /// # Errors
    /// [`Error::Enter`], [`Error::Socket`] or [`Error::Thread`].
    pub fn tcp_socket(&self, family: AddressFamily) -> Result<OwnedFd, Error> {
        let id = self.id;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        self.inside(|| socket(family, SockType::Stream, flags, None))?
            .map_err(|errno| Error::Socket {
                id,
                source: errno.into(),
            })
    }

    /// Runs `open` on a thread of its own inside the namespace.
    #[expect(clippy::disallowed_methods, reason = "the one place for setns")]
    fn inside<T: Send>(&self, open: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let id = self.id;
        thread::scope(|scope| {
            let enter = || {
                setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)
                    .map(|()| open())
                    .map_err(|errno| Error::Enter {
                        id,
                        source: errno.into(),
                    })
            };
            thread::Builder::new()
                .name("netns".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, enter)
                .map_err(|source| Error::Thread { id, source })?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}
