//! An [inotify(7)](https://man7.org/linux/man-pages/man7/inotify.7.html)
//! instance on tokio's event loop.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};

use nix::sys::inotify::{InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use crate::readiness::{self, KeepsItsDescriptor};

/// The instance.
#[derive(Debug)]
pub(crate) struct Watches(pub(crate) Inotify);

impl Watches {
    /// Makes an instance that watches nothing yet.
    pub(crate) fn open() -> io::Result<AsyncFd<Self>> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        readiness::register(Self(inotify))
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
