//! Execs and opens that wait for permission: a [fanotify(7)](https://man7.org/linux/man-pages/man7/fanotify.7.html)
//! group with `FAN_OPEN_EXEC_PERM` (Linux 5.0) or `FAN_OPEN_PERM`.
//!
//! A process that executes a marked file blocks in `execve` until the response, or until it is killed. Closing the
//! group allows all waiting execs; the kernel closes it when this process exits
//! ([fanotify_release](https://github.com/torvalds/linux/blob/v6.12/fs/notify/fanotify/fanotify_user.c)).
//!
//! **The kernel itself denies an exec** if it cannot open the program for this process: no descriptor is left
//! (`EMFILE`), a security module forbids it, or the file system refuses it, as overlayfs does if the mounter may not
//! read the file (`EACCES`). `copy_event_to_user` fails, `fanotify_read` finishes the event with `FAN_DENY`, and the
//! `execve` fails with `EPERM`. Only this exec is affected: the group and its other events are intact.
//!
//! Each denial is an [`Error::Denied`]. With `FAN_REPORT_FD_ERROR` (Linux 6.13, backported to 6.12.4 and 6.6.66) the
//! event itself carries the error and the pid. An older kernel returns the error from `read`, and only for the first
//! event of a call; after other events it is lost. So events are read one at a time, into a buffer for one. (nix reads
//! 4 KiB at a time, so it is not used for reading.) Nothing prevents the denial. The remedy against `EMFILE` is a
//! descriptor limit that is never reached: each waiting exec needs one descriptor.
//!
//! A process with a lease on the program ([`F_SETLEASE`](https://man7.org/linux/man-pages/man2/F_SETLEASE.2const.html))
//! delays that open for up to `fs.lease-break-time`, 45 s by default. With `O_NONBLOCK` it fails instead, with `EAGAIN`.

mod closer;
mod error;
mod waiting;

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::AT_FDCWD,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags},
    unistd::read,
};

pub(super) use self::error::{call, failed};
use self::{closer::Closer, waiting::EVENT};
pub use self::{error::Error, waiting::Waiting};

/// Maximum number of events in one call. Otherwise a process that keeps executing programs could prevent its return.
const TOGETHER: usize = 64;
/// Reports a denied exec with its pid; unknown to nix and libc.
const FAN_REPORT_FD_ERROR: u32 = 0x2000;
/// A file that exists and can be marked without side effects.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The object that a mark covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The file system, wherever it is mounted.
    FileSystem,
    Mount,
    /// The files directly in a directory.
    Directory,
}

/// The operation that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// An exec, which waits for permission.
    Exec,
    /// An open, which waits for permission.
    Open,
    /// An open, which does not wait.
    OpenUnheld,
}

#[derive(Debug)]
pub struct Group {
    fanotify: Arc<Fanotify>,
    access: Access,
    /// The events carry the errors of denied execs.
    has_fd_errors: bool,
    closer: Closer,
}

impl Group {
    /// Opens a group. Checks the kernel's support by adding and removing a mark on this program.
    pub fn open() -> Result<Self, Error> {
        let group = Self::init(Access::Exec)?;
        for flags in [MarkFlags::FAN_MARK_ADD, MarkFlags::FAN_MARK_REMOVE] {
            let mask = group.access.mask();
            let marked = group
                .fanotify
                .mark(flags, mask, AT_FDCWD, Some(OWN_PROGRAM));
            marked.map_err(failed("fanotify_mark"))?;
        }
        Ok(group)
    }

    /// Opens a group for opens. No mark is tried, because it would block another open of the file.
    pub fn for_opens() -> Result<Self, Error> {
        Self::init(Access::Open)
    }

    /// Opens a group of notifications of opens, which wait for nothing. They are read from [`Self::notifications`].
    pub(super) fn for_notifications() -> Result<Self, Error> {
        Self::with(Access::OpenUnheld, false).map_err(failed("fanotify_init"))
    }

    pub(super) fn notifications(&self) -> Arc<Fanotify> {
        Arc::clone(&self.fanotify)
    }

    fn init(access: Access) -> Result<Self, Error> {
        let opened = Self::with(access, true).or_else(|errno| match errno {
            Errno::EINVAL => Self::with(access, false),
            errno => Err(errno),
        });
        opened.map_err(failed("fanotify_init"))
    }

    fn with(access: Access, has_fd_errors: bool) -> Result<Self, Errno> {
        let mut flags =
            InitFlags::FAN_UNLIMITED_MARKS | InitFlags::FAN_NONBLOCK | InitFlags::FAN_CLOEXEC;
        let mut event = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        if access != Access::OpenUnheld {
            flags |= InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_UNLIMITED_QUEUE;
            // Without it a pod with a lease on the file would block this process.
            event |= EventFFlags::O_NONBLOCK;
        }
        flags.set(
            InitFlags::from_bits_retain(FAN_REPORT_FD_ERROR),
            has_fd_errors,
        );
        Ok(Self {
            fanotify: Arc::new(Fanotify::init(flags, event)?),
            access,
            has_fd_errors,
            closer: Closer::default(),
        })
    }

    /// Marks the object of a descriptor, which may be open with `O_PATH`. A repeated mark has no effect.
    ///
    /// # Errors
    /// [`Error::Call`]; with `EACCES` if the file is not readable.
    pub fn mark(&self, kind: Mark, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let marked = self.change(MarkFlags::FAN_MARK_ADD | kind.flag(), fd);
        marked.map_err(|errno| call("fanotify_mark", errno))
    }

    /// Removes a mark; an absent one is no error. Waiting execs keep waiting.
    pub fn unmark(&self, kind: Mark, fd: BorrowedFd<'_>) -> Result<(), Error> {
        match self.change(MarkFlags::FAN_MARK_REMOVE | kind.flag(), fd) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(call("fanotify_mark", errno)),
        }
    }

    /// Waiting execs keep waiting.
    pub fn unmark_all(&self) -> Result<(), Error> {
        for kind in [Mark::FileSystem, Mark::Mount, Mark::Directory] {
            let flags = MarkFlags::FAN_MARK_FLUSH | kind.flag();
            let flushed =
                self.fanotify
                    .mark(flags, MaskFlags::empty(), AT_FDCWD, Some(Path::new("/")));
            flushed.map_err(|errno| call("fanotify_mark", errno))?;
        }
        Ok(())
    }

    fn change(&self, flags: MarkFlags, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        // The call rejects a descriptor that was opened with O_PATH, but accepts its path.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        self.fanotify
            .mark(flags, self.access.mask(), AT_FDCWD, Some(Path::new(&path)))
    }

    /// Passes up to 64 waiting processes to `take`, without waiting for more.
    ///
    /// # Errors
    /// [`Error::Denied`], after which the next call may follow at once; [`Error::Call`].
    pub fn read(&self, mut take: impl FnMut(Waiting)) -> Result<(), Error> {
        let mut event = [0; EVENT];
        for _ in 0..TOGETHER {
            let was_empty = self.is_empty();
            match read(&*self.fanotify, &mut event) {
                Ok(_whole) => Waiting::of(&self.fanotify, &event)?
                    .into_iter()
                    .for_each(&mut take),
                // Before Linux 6.13 it is also the error of an event whose file is leased.
                Err(Errno::EAGAIN) if was_empty || self.has_fd_errors => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno @ (Errno::EBADF | Errno::EINVAL)) => return Err(call("read", errno)),
                Err(errno) => {
                    return Err(Error::Denied {
                        pid: None,
                        source: errno.into(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether no event is in the queue. A failed poll counts as empty.
    fn is_empty(&self) -> bool {
        let mut queue = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut queue, PollTimeout::ZERO) != Ok(1)
    }

    /// Allows a waiting operation.
    ///
    /// # Errors
    /// [`Error::Call`]. An operation whose process was killed in the meantime is no error.
    pub fn allow(&self, mut waiting: Waiting) -> Result<(), Error> {
        let file = waiting.answer().map_err(|errno| call("write", errno))?;
        // The other files are the runtime's, on a tmpfs.
        if let Some(program) = file.filter(|_| self.access == Access::Exec) {
            self.closer.close(program);
        }
        Ok(())
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fanotify.as_fd()
    }
}

impl Mark {
    fn flag(self) -> MarkFlags {
        match self {
            Self::FileSystem => MarkFlags::FAN_MARK_FILESYSTEM,
            Self::Mount => MarkFlags::FAN_MARK_MOUNT,
            Self::Directory => MarkFlags::empty(),
        }
    }
}

impl Access {
    fn mask(self) -> MaskFlags {
        match self {
            Self::Exec => MaskFlags::FAN_OPEN_EXEC_PERM,
            Self::Open => MaskFlags::FAN_OPEN_PERM | MaskFlags::FAN_EVENT_ON_CHILD,
            Self::OpenUnheld => MaskFlags::FAN_OPEN | MaskFlags::FAN_EVENT_ON_CHILD,
        }
    }
}

#[cfg(test)]
mod tests;
