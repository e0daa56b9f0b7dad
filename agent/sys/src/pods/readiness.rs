//! Registration of a file descriptor with tokio's event loop.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// Registers `fd` for readability.
///
/// # Errors
/// Those of epoll: usually no memory or no watches are left.
pub(crate) fn register<Fd: KeepsItsDescriptor>(fd: Fd) -> io::Result<AsyncFd<Fd>> {
    register_for(fd, Interest::READABLE)
}

/// Registers `fd` for other events.
#[expect(
    unsafe_code,
    reason = "tokio's safe constructors are deprecated: they trust every AsRawFd to keep its descriptor"
)]
pub(crate) fn register_for<Fd: KeepsItsDescriptor>(
    fd: Fd,
    interest: Interest,
) -> io::Result<AsyncFd<Fd>> {
    // SAFETY: the descriptor has to stay open and unchanged as long as the AsyncFd lives, which `KeepsItsDescriptor`
    // guarantees.
    unsafe { AsyncFd::register_with_interest(fd, interest) }
        .map_err(|refused| refused.into_parts().1)
}

/// A type that owns one descriptor.
///
/// # Safety
/// `as_raw_fd` must return the same open descriptor as long as the value lives.
#[expect(unsafe_code, reason = "a promise that the compiler cannot check")]
pub(crate) unsafe trait KeepsItsDescriptor: AsRawFd {}

// SAFETY: an OwnedFd is one descriptor until it is dropped.
#[expect(unsafe_code, reason = "see the trait")]
unsafe impl KeepsItsDescriptor for OwnedFd {}
