//! Programs that are about to be executed, and wait for leave: a
//! [fanotify(7)](https://man7.org/linux/man-pages/man7/fanotify.7.html) group
//! with `FAN_OPEN_EXEC_PERM` (Linux 5.0).
//!
//! A process that executes a file on what is marked stands still in `execve`
//! until the answer, or until it is killed. When the group is closed, with
//! the end of this process at the latest, all of them go on
//! ([fanotify_release](https://github.com/torvalds/linux/blob/v6.12/fs/notify/fanotify/fanotify_user.c)).
//!
//! **The kernel itself denies an exec** whose event it cannot hand out,
//! because this process has no descriptor left (`EMFILE`) or a security module
//! forbids to open the file: `read` takes the event from the queue,
//! `copy_event_to_user` fails, `fanotify_read` finishes it with `FAN_DENY`, and
//! the `execve` fails with `EPERM`. The call returns that error only if the
//! event was the first one of the call; behind other events it is lost. So
//! one event is read at a time, into a buffer that has room for one, and each
//! denial is an [`Error::Denied`]. (nix reads 4 KiB at a time, so reading is
//! by hand.) The flag `FAN_REPORT_FD_ERROR` (Linux 6.13) would tell the process
//! as well, and its exec is denied all the same. The way out is a limit of
//! descriptors that is never reached: one is open for each exec that waits.

mod error;
mod exec;

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::AT_FDCWD,
    sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags},
    unistd::read,
};

pub use self::{error::Error, exec::Exec};
use self::{
    error::{call, failed},
    exec::EVENT,
};

/// What a group is told of.
const MASK: MaskFlags = MaskFlags::FAN_OPEN_EXEC_PERM;
/// Events that are read at once: a process that executes one program after the
/// other would never let a reader of all of them go.
const TOGETHER: usize = 64;
/// A file that is there and can be marked without doing anything to it.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What is marked by a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The file system that it is on, wherever it is mounted.
    FileSystem,
    /// The one mount that it is on.
    Mount,
}

#[derive(Debug)]
pub struct Group {
    fanotify: Arc<Fanotify>,
}

impl Group {
    /// Opens a group, and finds out whether the kernel can do this: a mark
    /// on our own program is tried and taken back.
    ///
    /// # Errors
    /// [`Error::Permission`], [`Error::Groups`], [`Error::Unsupported`].
    pub fn open() -> Result<Self, Error> {
        let flags = InitFlags::FAN_CLASS_CONTENT
            | InitFlags::FAN_UNLIMITED_QUEUE
            | InitFlags::FAN_UNLIMITED_MARKS
            | InitFlags::FAN_NONBLOCK
            | InitFlags::FAN_CLOEXEC;
        let event = EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC | EventFFlags::O_LARGEFILE;
        let fanotify = Fanotify::init(flags, event).map_err(failed("fanotify_init"))?;
        for flags in [MarkFlags::FAN_MARK_ADD, MarkFlags::FAN_MARK_REMOVE] {
            let marked = fanotify.mark(flags, MASK, AT_FDCWD, Some(OWN_PROGRAM));
            marked.map_err(failed("fanotify_mark"))?;
        }
        Ok(Self {
            fanotify: Arc::new(fanotify),
        })
    }

    /// Marks what a descriptor is on; also one that was opened with `O_PATH`.
    /// A second mark of the same is none.
    ///
    /// # Errors
    /// [`Error::Call`]; with `EACCES` where the file may not be read.
    pub fn mark(&self, kind: Mark, fd: BorrowedFd<'_>) -> Result<(), Error> {
        let marked = self.change(MarkFlags::FAN_MARK_ADD | kind.flag(), fd);
        marked.map_err(|errno| call("fanotify_mark", errno))
    }

    /// Takes a mark back; none there is fine. Who waits goes on waiting.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn unmark(&self, kind: Mark, fd: BorrowedFd<'_>) -> Result<(), Error> {
        match self.change(MarkFlags::FAN_MARK_REMOVE | kind.flag(), fd) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(call("fanotify_mark", errno)),
        }
    }

    /// Takes all marks back. Who waits goes on waiting.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn unmark_all(&self) -> Result<(), Error> {
        for kind in [Mark::FileSystem, Mark::Mount] {
            let flags = MarkFlags::FAN_MARK_FLUSH | kind.flag();
            let flushed =
                self.fanotify
                    .mark(flags, MaskFlags::empty(), AT_FDCWD, Some(Path::new("/")));
            flushed.map_err(|errno| call("fanotify_mark", errno))?;
        }
        Ok(())
    }

    fn change(&self, flags: MarkFlags, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        // The call takes no descriptor that was opened with O_PATH, but a path
        // to one.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        self.fanotify
            .mark(flags, MASK, AT_FDCWD, Some(Path::new(&path)))
    }

    /// Takes execs that are there, 64 at most, and does not wait for more.
    ///
    /// # Errors
    /// [`Error::Denied`], after which it may be called again at once;
    /// [`Error::Call`].
    pub fn read(&self, mut take: impl FnMut(Exec)) -> Result<(), Error> {
        let mut event = [0; EVENT];
        for _ in 0..TOGETHER {
            match read(&*self.fanotify, &mut event) {
                Ok(_whole) => Exec::of(&self.fanotify, &event)?
                    .into_iter()
                    .for_each(&mut take),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno @ (Errno::EBADF | Errno::EINVAL)) => return Err(call("read", errno)),
                Err(errno) => return Err(Error::Denied(errno.into())),
            }
        }
        Ok(())
    }

    /// Lets a process go on.
    ///
    /// # Errors
    /// [`Error::Call`]. A process that was killed meanwhile is no error.
    pub fn allow(&self, mut exec: Exec) -> Result<(), Error> {
        exec.answer().map_err(|errno| call("write", errno))
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
        }
    }
}
