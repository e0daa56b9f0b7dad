//! The calling thread's CPU priority.
//!
//! [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html): on Linux the nice value belongs to a
//! thread. A value below 0 needs `CAP_SYS_NICE`. nix has no wrapper.

use std::io;

/// Raises the calling thread above ordinary ones.
///
/// # Errors
/// `EACCES` without `CAP_SYS_NICE`; the priority is unchanged then.
#[expect(unsafe_code, reason = "setpriority has no wrapper in nix")]
pub fn raise() -> io::Result<()> {
    // SAFETY: the arguments are numbers; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
