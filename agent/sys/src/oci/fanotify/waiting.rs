//! One waiting process.

use std::{
    io,
    mem::offset_of,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use nix::{
    errno::Errno,
    sys::fanotify::{FANOTIFY_METADATA_VERSION, Fanotify, FanotifyResponse, MaskFlags, Response},
};
use usher_core::base::id::Pid;

use super::Error;

/// Length of `struct fanotify_event_metadata`, which is the complete event here.
pub(super) const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

/// Events that need a response.
const PERMISSIONS: MaskFlags = MaskFlags::FAN_OPEN_EXEC_PERM.union(MaskFlags::FAN_OPEN_PERM);

/// A process that waits in `execve` or `open`.
///
/// It continues when this value is allowed or dropped, because nothing else releases it while the group exists.
#[derive(Debug)]
#[must_use = "dropping it allows the call"]
pub struct Waiting {
    /// The pid in this process's pid namespace; 0 if the process is not visible there.
    pub pid: Pid,
    /// The descriptor identifies the event in the response, so it must stay open until then. None after the response.
    fd: Option<OwnedFd>,
    fanotify: Arc<Fanotify>,
}

impl Waiting {
    /// Decodes an event of a group; None if it needs no response.
    ///
    /// # Errors
    /// [`Error::Denied`] for an event with an error instead of a descriptor; [`Error::Unsupported`].
    pub(super) fn of(fanotify: &Arc<Fanotify>, event: &[u8; EVENT]) -> Result<Option<Self>, Error> {
        const { assert!(offset_of!(libc::fanotify_event_metadata, vers) == 4) };
        const { assert!(offset_of!(libc::fanotify_event_metadata, mask) == 8) };
        const { assert!(offset_of!(libc::fanotify_event_metadata, fd) == 16) };
        const { assert!(offset_of!(libc::fanotify_event_metadata, pid) == 20) };
        if event[4] != FANOTIFY_METADATA_VERSION {
            // Another version has other fields, so no event could get a response.
            return Err(Error::Unsupported(io::ErrorKind::InvalidData.into()));
        }
        let mask = u64::from_ne_bytes(field(event, 8));
        let fd = i32::from_ne_bytes(field(event, 16));
        let pid = Pid(i32::from_ne_bytes(field(event, 20)));
        if fd < 0 && mask & PERMISSIONS.bits() != 0 {
            return Err(Error::Denied {
                pid: Some(pid),
                source: io::Error::from_raw_os_error(fd.saturating_neg()),
            });
        }
        Ok((fd >= 0).then(|| Self {
            pid,
            fd: Some(own(fd)),
            fanotify: Arc::clone(fanotify),
        }))
    }

    /// Returns the descriptor, which is to be closed.
    pub(super) fn answer(&mut self) -> Result<Option<OwnedFd>, Errno> {
        let Some(fd) = self.fd.take() else {
            return Ok(None);
        };
        let response = FanotifyResponse::new(fd.as_fd(), Response::FAN_ALLOW);
        match self.fanotify.write_response(response) {
            // The process was killed.
            Ok(()) | Err(Errno::ENOENT) => Ok(Some(fd)),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // No caller can receive an error here. A group that accepts no response is about to be closed.
        self.answer().ok();
    }
}

/// The bytes of an event from this offset on.
fn field<const N: usize>(event: &[u8; EVENT], offset: usize) -> [u8; N] {
    std::array::from_fn(|index| event[offset + index])
}

/// Takes ownership of the descriptor of an event.
#[expect(unsafe_code, reason = "the kernel gives it as a number")]
fn own(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just opened this descriptor, and no other code has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
