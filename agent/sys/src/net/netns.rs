//! Network namespaces: the namespace of a process, and sockets in a namespace.
//!
//! This is the only module that enters a namespace
//! ([setns(2)](https://man7.org/linux/man-pages/man2/setns.2.html)). It does so on a new thread that opens the socket
//! and exits: there is no return to the old namespace that could fail, and no other code runs inside. A socket stays
//! in the namespace that it was opened in, so ordinary threads connect and communicate. The exception is
//! [`Netns::netlink_here`]: a new thread costs two switches to another processor, which a request does not wait for.
//!
//! An open namespace and its sockets keep the namespace alive, so close all of them after the work. Needs
//! `CAP_SYS_ADMIN`, and `CAP_SYS_PTRACE` for processes of other users.

mod scan;

use std::{
    cell::OnceCell,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::PathBuf,
    thread,
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, setns, unshare},
    sys::{
        socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt},
        stat::fstat,
    },
};
use usher_core::{
    base::id::{NetnsId, Pid},
    hold::ruleset::SOCKET_PRIORITY,
};

pub use self::scan::{Scan, has_ended, scan};
use crate::{
    net::netlink::{Protocol, Socket},
    pods::proc::ProcRoot,
};

/// Stack of the temporary thread, which makes two system calls.
const STACK: usize = 64 * 1024;

const PRIORITY: i32 = SOCKET_PRIORITY as i32;

/// [`linux/sockios.h`](https://github.com/torvalds/linux/blob/v6.12/include/uapi/linux/sockios.h).
const SIOCGSKNS: libc::Ioctl = 0x894C;

/// Flags of every socket.
const FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

thread_local! {
    /// The namespace of this thread, which it returns to. Opening it for each request would take 10 µs.
    static HOME: OnceCell<File> = const { OnceCell::new() };
}

/// A namespace could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening network namespace {path:?}")]
    Open { path: PathBuf, source: io::Error },
    #[error("looking at a descriptor that should be of a network namespace")]
    Given(#[source] io::Error),
    #[error("making a network namespace")]
    Make(#[source] io::Error),
    #[error("entering {id}")]
    Enter { id: NetnsId, source: io::Error },
    #[error("opening a socket in {id}")]
    Socket { id: NetnsId, source: io::Error },
    #[error("starting a thread to enter {id}")]
    Thread { id: NetnsId, source: io::Error },
}

impl Error {
    /// Whether the process has exited or is exiting.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Open { source, .. } if has_ended(source))
    }

    /// Whether the kernel has no sockets of this address family, such as IPv6 with `ipv6.disable=1`.
    pub fn is_unsupported_family(&self) -> bool {
        let unsupported = Some(Errno::EAFNOSUPPORT as i32);
        matches!(self, Self::Socket { source, .. } if source.raw_os_error() == unsupported)
    }
}

/// An open network namespace.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
    id: NetnsId,
}

impl Netns {
    /// Opens the current namespace of a process. Check afterwards that `pid` is still that process.
    pub fn of_process(proc: &ProcRoot, pid: Pid) -> Result<Self, Error> {
        let path = proc.path(pid, "ns/net");
        let open = || -> io::Result<Self> {
            let fd = OwnedFd::from(File::open(&path)?);
            let id = identity(&fd)?;
            Ok(Self { fd, id })
        };
        open().map_err(|source| Error::Open { path, source })
    }

    /// Opens the namespace of a socket (`SIOCGSKNS`, Linux 4.10). Needs `CAP_NET_ADMIN` in the user namespace that owns it.
    #[expect(unsafe_code, reason = "an ioctl that returns a descriptor")]
    pub fn of_socket(socket: &OwnedFd) -> Result<Self, Error> {
        // SAFETY: the descriptor is open, and the request takes no argument.
        let fd = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS) };
        if fd < 0 {
            return Err(Error::Given(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has just opened this descriptor, and no other code has it.
        Self::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Takes ownership of a descriptor if it is one of a network namespace
    /// ([ioctl_nsfs(2)](https://man7.org/linux/man-pages/man2/ioctl_nsfs.2.html)).
    ///
    /// # Errors
    /// [`Error::Given`]: `EINVAL` for another kind of namespace, `ENOTTY` for another kind of file.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, Error> {
        if kind(&fd).map_err(Error::Given)? != libc::CLONE_NEWNET {
            return Err(Error::Given(Errno::EINVAL.into()));
        }
        let id = identity(&fd).map_err(Error::Given)?;
        Ok(Self { fd, id })
    }

    /// Creates an empty namespace with loopback down. The kernel removes it when the value and its sockets are closed.
    ///
    /// # Errors
    /// [`Error::Make`]; `EPERM` without `CAP_SYS_ADMIN`.
    pub fn scratch() -> Result<Self, Error> {
        let make = || -> io::Result<OwnedFd> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Ok(File::open("/proc/thread-self/ns/net")?.into())
        };
        let made = on_thread(make).flatten();
        Self::from_fd(made.map_err(Error::Make)?)
    }

    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// Opens a non-blocking TCP socket in the namespace, which usher's holds neither hold nor count
    /// ([`SOCKET_PRIORITY`]). Blocks the calling thread for about 50 µs.
    pub fn tcp_socket(&self, family: AddressFamily) -> Result<OwnedFd, Error> {
        self.unheld_socket(family, SockType::Stream)
    }

    /// Opens a non-blocking UDP socket in the namespace, like [`Self::tcp_socket`].
    pub fn udp_socket(&self, family: AddressFamily) -> Result<OwnedFd, Error> {
        self.unheld_socket(family, SockType::Datagram)
    }

    fn unheld_socket(&self, family: AddressFamily, kind: SockType) -> Result<OwnedFd, Error> {
        self.socket(|| {
            let opened = socket(family, kind, FLAGS, None)?;
            // Without the capability to set it, the traffic is treated like the app's.
            let _unset = setsockopt(&opened, sockopt::Priority, &PRIORITY);
            Ok(opened)
        })
    }

    /// Opens a non-blocking socket that sends whole IP packets, including the header
    /// ([raw(7)](https://man7.org/linux/man-pages/man7/raw.7.html)). Needs `CAP_NET_RAW`.
    pub fn raw_socket(&self, family: AddressFamily) -> Result<OwnedFd, Error> {
        self.socket(|| Ok(socket(family, SockType::Raw, FLAGS, SockProtocol::Raw)?))
    }

    /// Opens a non-blocking socket for copies of packets, which receives none until it is bound
    /// ([packet(7)](https://man7.org/linux/man-pages/man7/packet.7.html)). Needs `CAP_NET_RAW`.
    pub fn packet_socket(&self) -> Result<OwnedFd, Error> {
        let family = AddressFamily::Packet;
        self.socket(|| Ok(socket(family, SockType::Raw, FLAGS, None)?))
    }

    /// Opens a netlink socket in the namespace. Its requests concern this namespace only.
    pub fn netlink(&self, protocol: Protocol) -> Result<Socket, Error> {
        self.socket(|| Socket::open(protocol))
    }

    /// [`Self::netlink`] on this thread, which enters the namespace and returns. A failed return ends the process, so call it
    /// only in one that is replaced, such as the worker.
    pub fn netlink_here(&self, protocol: Protocol) -> Result<Socket, Error> {
        let opened = self.inside_here(|| Socket::open(protocol))?;
        opened.map_err(|source| Error::Socket {
            id: self.id,
            source,
        })
    }

    fn socket<T: Send>(&self, open: impl FnOnce() -> io::Result<T> + Send) -> Result<T, Error> {
        self.inside(open)?.map_err(|source| Error::Socket {
            id: self.id,
            source,
        })
    }

    /// Runs `open` inside the namespace on this thread, which returns, or ends the process. Saves 0.1 to 0.3 ms.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place for setns besides a thread of its own"
    )]
    pub(crate) fn inside_here<T>(&self, open: impl FnOnce() -> T) -> Result<T, Error> {
        let enter = |source: io::Error| Error::Enter {
            id: self.id,
            source,
        };
        HOME.with(|home| {
            let home = match home.get() {
                Some(home) => home,
                None => {
                    let opened = File::open("/proc/thread-self/ns/net").map_err(enter)?;
                    home.get_or_init(|| opened)
                }
            };
            setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET)
                .map_err(|errno| enter(errno.into()))?;
            let opened = open();
            if setns(home, CloneFlags::CLONE_NEWNET).is_err() {
                // This thread would do its next work in the namespace of a pod.
                std::process::abort();
            }
            Ok(opened)
        })
    }

    /// Runs `open` on a new thread inside the namespace.
    #[expect(clippy::disallowed_methods, reason = "the one place for setns")]
    pub(crate) fn inside<T: Send>(&self, open: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let id = self.id;
        let enter = || setns(self.fd.as_fd(), CloneFlags::CLONE_NEWNET).map(|()| open());
        let entered = on_thread(enter).map_err(|source| Error::Thread { id, source })?;
        entered.map_err(|errno| Error::Enter {
            id,
            source: errno.into(),
        })
    }
}

/// Runs `run` on a new thread, and waits for its end.
fn on_thread<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".to_owned())
            .stack_size(STACK);
        let ended = thread.spawn_scoped(scope, run)?.join();
        Ok(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn identity(fd: &OwnedFd) -> io::Result<NetnsId> {
    let stat = fstat(fd)?;
    Ok(NetnsId {
        dev: stat.st_dev,
        ino: stat.st_ino,
    })
}

/// The kind of a namespace descriptor, as a flag of clone(2).
#[expect(unsafe_code, reason = "an ioctl")]
fn kind(fd: &OwnedFd) -> io::Result<i32> {
    // SAFETY: the descriptor is open, and the request takes no argument.
    let kind = unsafe { libc::ioctl(fd.as_raw_fd(), libc::NS_GET_NSTYPE) };
    if kind < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(path: &str) -> Result<Netns, Error> {
        Netns::from_fd(File::open(path).unwrap().into())
    }

    #[test]
    fn only_network_namespaces_are_accepted() {
        let own = given("/proc/self/ns/net").unwrap();
        let same = given("/proc/thread-self/ns/net").unwrap();
        assert_eq!(own.id(), same.id());
        for (path, errno) in [
            ("/proc/self/ns/mnt", Errno::EINVAL),
            ("/proc/self/stat", Errno::ENOTTY),
            ("/dev/null", Errno::ENOTTY),
        ] {
            let error = given(path).unwrap_err();
            let is_expected = matches!(&error, Error::Given(source)
                if source.raw_os_error() == Some(errno as i32));
            assert!(is_expected, "{path}: {error:?}");
        }
    }
}
