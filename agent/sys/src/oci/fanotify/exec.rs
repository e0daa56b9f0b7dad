//! One exec that waits.

use std::{
    io,
    mem::offset_of,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::fanotify::{FANOTIFY_METADATA_VERSION, Fanotify, FanotifyResponse, Response},
};
use usher_core::base::id::Pid;

use super::Error;

/// Length of `struct fanotify_event_metadata`, which is all of an event here.
pub(super) const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

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

impl Exec {
    /// Takes an event of a group; None for one that needs no answer.
    pub(super) fn of(fanotify: &Arc<Fanotify>, event: &[u8; EVENT]) -> Result<Option<Self>, Error> {
        const { assert!(offset_of!(libc::fanotify_event_metadata, vers) == 4) };
        const { assert!(offset_of!(libc::fanotify_event_metadata, fd) == 16) };
        const { assert!(offset_of!(libc::fanotify_event_metadata, pid) == 20) };
        if event[4] != FANOTIFY_METADATA_VERSION {
            // Another version has other fields, so that none could be answered.
            return Err(Error::Unsupported(io::ErrorKind::InvalidData.into()));
        }
        let [.., a, b, c, d, e, f, g, h] = *event;
        let (fd, pid) = (
            i32::from_ne_bytes([a, b, c, d]),
            i32::from_ne_bytes([e, f, g, h]),
        );
        Ok((fd >= 0).then(|| Self {
            pid: Pid(pid),
            fd: own(fd),
            fanotify: Arc::clone(fanotify),
            is_answered: false,
        }))
    }

    pub(super) fn answer(&mut self) -> Result<(), Errno> {
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

/// Takes the descriptor of an event.
#[expect(unsafe_code, reason = "the kernel gives it as a number")]
fn own(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just opened this descriptor for us, and nobody
    // else knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
