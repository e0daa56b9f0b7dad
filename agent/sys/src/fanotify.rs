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

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use nix::{
    errno::Errno,
    fcntl::AT_FDCWD,
    sys::fanotify::{
        EventFFlags, FANOTIFY_METADATA_VERSION, Fanotify, FanotifyResponse, InitFlags, MarkFlags,
        MaskFlags, Response,
    },
    unistd::read,
};
use usher_core::id::Pid;

/// What a group is told of.
const MASK: MaskFlags = MaskFlags::FAN_OPEN_EXEC_PERM;
/// Length of `struct fanotify_event_metadata`, which is all of an event here.
const EVENT: usize = size_of::<libc::fanotify_event_metadata>();
/// A file that is there and can be marked without doing anything to it.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A group could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `CAP_SYS_ADMIN` is missing.
    #[error("fanotify is not permitted")]
    Permission(#[source] io::Error),
    /// The user has no group left (`fs.fanotify.max_user_groups`, 128 by
    /// default, of the whole machine for uid 0), or the process no descriptor.
    #[error("no fanotify group is left for this user")]
    Groups(#[source] io::Error),
    /// The kernel has no fanotify, or none with permission events
    /// (`CONFIG_FANOTIFY_ACCESS_PERMISSIONS`, Linux 5.0).
    #[error("the kernel does not ask before an exec")]
    Unsupported(#[source] io::Error),
    /// The kernel refused an exec because it could not hand out its event.
    /// There may be more events to read.
    #[error("an exec was refused by the kernel, which could not open its file for this process")]
    Denied(#[source] io::Error),
    /// Another call failed.
    #[error("{call} on a fanotify group")]
    Call {
        /// The call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// A word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Permission(_) => "permission",
            Self::Groups(_) => "groups",
            Self::Unsupported(_) => "unsupported",
            Self::Denied(_) => "denied",
            Self::Call { .. } => "call",
        }
    }
}

/// What is marked by a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The file system that it is on, wherever it is mounted.
    FileSystem,
    /// The one mount that it is on.
    Mount,
}

/// The group.
#[derive(Debug)]
pub struct Group {
    fanotify: Arc<Fanotify>,
}

/// A process that is about to execute a program, and waits.
///
/// It goes on when this is allowed or dropped: as long as the group exists
/// nobody else would let it.
#[derive(Debug)]
#[must_use = "dropped, it goes on at once"]
pub struct Exec {
    /// The process, as this process's own pid namespace numbers it; 0 if it is
    /// in none of those below.
    pub pid: Pid,
    /// Its number is the event's name in the answer, so it stays open until
    /// then.
    fd: OwnedFd,
    fanotify: Arc<Fanotify>,
    is_answered: bool,
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

    fn change(&self, flags: MarkFlags, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        // The call takes no descriptor that was opened with O_PATH, but a path
        // to one.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        self.fanotify
            .mark(flags, MASK, AT_FDCWD, Some(Path::new(&path)))
    }

    /// Takes all execs that there are, and does not wait for more.
    ///
    /// # Errors
    /// [`Error::Denied`], after which it may be called again at once;
    /// [`Error::Call`].
    pub fn read(&self, mut take: impl FnMut(Exec)) -> Result<(), Error> {
        let mut buffer = [0; EVENT];
        loop {
            match read(&*self.fanotify, &mut buffer) {
                Ok(length) => self
                    .event(&buffer[..length])?
                    .into_iter()
                    .for_each(&mut take),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno @ (Errno::EBADF | Errno::EINVAL)) => return Err(call("read", errno)),
                Err(errno) => return Err(Error::Denied(errno.into())),
            }
        }
    }

    /// One event; None for one that needs no answer.
    fn event(&self, bytes: &[u8]) -> Result<Option<Exec>, Error> {
        let whole = bytes.first_chunk::<EVENT>();
        let known = whole.filter(|bytes| bytes[4] == FANOTIFY_METADATA_VERSION);
        let Some(bytes) = known else {
            // Another version has other fields, so that none could be answered.
            return Err(Error::Unsupported(io::ErrorKind::InvalidData.into()));
        };
        let number = |at: usize| {
            i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        const { assert!(std::mem::offset_of!(libc::fanotify_event_metadata, fd) == 16) };
        const { assert!(std::mem::offset_of!(libc::fanotify_event_metadata, pid) == 20) };
        let (fd, pid) = (number(16), number(20));
        Ok((fd >= 0).then(|| Exec {
            pid: Pid(pid),
            fd: own(fd),
            fanotify: Arc::clone(&self.fanotify),
            is_answered: false,
        }))
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

impl Exec {
    fn answer(&mut self) -> Result<(), Errno> {
        self.is_answered = true;
        let response = FanotifyResponse::new(self.fd.as_fd(), Response::FAN_ALLOW);
        match self.fanotify.write_response(response) {
            // It does not wait any more: killed.
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if !self.is_answered {
            // Nobody is there to be told; a group that takes no answer is
            // about to end.
            self.answer().ok();
        }
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

/// Takes the descriptor of an event.
#[expect(unsafe_code, reason = "the kernel gives it as a number")]
fn own(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just opened this descriptor for us, and nobody
    // else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// What the first calls fail with.
fn failed(call: &'static str) -> impl Fn(Errno) -> Error {
    move |errno| {
        let source = errno.into();
        match errno {
            Errno::EPERM => Error::Permission(source),
            Errno::EMFILE => Error::Groups(source),
            Errno::ENOSYS | Errno::EINVAL => Error::Unsupported(source),
            _ => Error::Call { call, source },
        }
    }
}

fn call(call: &'static str, errno: Errno) -> Error {
    Error::Call {
        call,
        source: errno.into(),
    }
}
