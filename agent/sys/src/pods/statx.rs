//! [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html): what a file is, and what is mounted there.
//!
//! Written by hand because nix has no wrapper. It tells the number of a mount, as it is in `mountinfo`, and whether a
//! path is a mount's root (Linux 5.8); and it is the one stat that can be told not to ask a remote server.

use std::{
    ffi::CStr,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd},
    path::Path,
};

use nix::NixPath;

/// What is at a path below an open directory, of which `mask` is wanted.
pub(crate) fn at(
    dir: BorrowedFd<'_>,
    path: &CStr,
    flags: i32,
    mask: u32,
) -> io::Result<libc::statx> {
    statx(dir.as_raw_fd(), path, flags, mask)
}

/// Which file a path leads to: the numbers of its device and of itself.
pub(crate) fn identity(path: &Path) -> io::Result<(u32, u32, u64)> {
    let there = path.with_nix_path(|path| statx(libc::AT_FDCWD, path, 0, libc::STATX_INO))??;
    Ok((there.stx_dev_major, there.stx_dev_minor, there.stx_ino))
}

#[expect(unsafe_code, reason = "nix has no statx")]
fn statx(dir: i32, path: &CStr, flags: i32, mask: u32) -> io::Result<libc::statx> {
    let mut there = MaybeUninit::<libc::statx>::zeroed();
    // What a remote server would have to be asked for is not wanted.
    let flags = flags | libc::AT_NO_AUTOMOUNT | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the descriptor is open or AT_FDCWD, the path ends with a zero byte, and the kernel writes a struct of
    // this size or nothing.
    let result = unsafe { libc::statx(dir, path.as_ptr(), flags, mask, there.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written by the kernel, and all of it numbers.
    Ok(unsafe { there.assume_init() })
}
