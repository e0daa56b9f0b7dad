//! The calling thread's CPU priority.
//!
//! [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html): on Linux the nice value belongs to a
//! thread. A value below 0 needs `CAP_SYS_NICE`. nix has no wrapper.

use std::io;

/// Raises the priority of the calling thread above the ordinary one.
///
/// # Errors
/// `EACCES` without `CAP_SYS_NICE`; the priority is unchanged then.
pub fn raise() -> io::Result<()> {
    set(-20)
}

/// Sets the ordinary priority for the calling thread, which may have inherited another one.
///
/// # Errors
/// `EACCES` if the thread has a lower priority.
pub fn reset() -> io::Result<()> {
    set(0)
}

#[expect(unsafe_code, reason = "setpriority has no wrapper in nix")]
fn set(nice: i32) -> io::Result<()> {
    // SAFETY: the arguments are numbers; 0 is the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
