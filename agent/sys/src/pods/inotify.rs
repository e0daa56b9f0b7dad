//! An [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html) instance on tokio's event loop.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};

use nix::{
    errno::Errno,
    sys::inotify::{InitFlags, Inotify, InotifyEvent},
};
use tokio::io::unix::AsyncFd;

use crate::pods::readiness::{self, KeepsItsDescriptor};

#[derive(Debug)]
pub(crate) struct Watches(pub(crate) Inotify);

impl Watches {
    /// Creates an instance without watches.
    pub(crate) fn open() -> io::Result<AsyncFd<Self>> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        readiness::register(Self(inotify))
    }

    /// Waits for events and returns all that are queued.
    ///
    /// # Errors
    /// Those of read(2), which are permanent.
    pub(crate) async fn next(watches: &AsyncFd<Self>) -> io::Result<Vec<InotifyEvent>> {
        loop {
            watches.readable().await?.clear_ready();
            let mut events = Vec::new();
            loop {
                match watches.get_ref().0.read_events() {
                    Ok(more) => events.extend(more),
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

impl AsRawFd for Watches {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

// SAFETY: a nix `Inotify` is one OwnedFd, and nothing replaces it.
#[expect(unsafe_code, reason = "see the trait")]
unsafe impl KeepsItsDescriptor for Watches {}
