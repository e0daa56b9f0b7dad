//! The calling thread's share of the CPU.
//!
//! [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html):
//! on Linux the nice value belongs to a thread. Needs `CAP_SYS_NICE` for a
//! value below 0. Written by hand because nix has no wrapper.

use std::io;

/// Puts the calling thread before ordinary ones.
///
/// # Errors
/// `EACCES` without `CAP_SYS_NICE`; the thread then runs as before.
#[expect(unsafe_code, reason = "setpriority has no wrapper in nix")]
pub fn raise() -> io::Result<()> {
    // SAFETY: plain numbers; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
