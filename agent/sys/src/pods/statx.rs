//! [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html): type and mount of a file.
//!
//! nix has no wrapper. statx returns the id of a mount, as in `mountinfo`, and whether a path is the root of a mount
//! (Linux 5.8). It is the only stat call that can avoid a request to a remote server.

use std::{
    ffi::CStr,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Status of a path below an open directory; `mask` selects the fields.
#[expect(unsafe_code, reason = "nix has no statx")]
pub(crate) fn at(
    dir: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
    mask: u32,
) -> io::Result<libc::statx> {
    let mut there = MaybeUninit::<libc::statx>::zeroed();
    // The call must not cause a request to a remote server.
    let flags = flags | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the descriptor is open, the path is zero-terminated, and the kernel writes a struct of this size or
    // nothing.
    let result = unsafe {
        libc::statx(
            dir.as_raw_fd(),
            path.as_ptr(),
            flags,
            mask,
            there.as_mut_ptr(),
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written it, and all fields are numbers.
    Ok(unsafe { there.assume_init() })
}
