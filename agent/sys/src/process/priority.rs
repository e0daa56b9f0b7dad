//! The calling thread's CPU priority.
//!
//! [setpriority(2)](https://man7.org/linux/man-pages/man2/setpriority.2.html): on Linux the nice value belongs to a
//! thread. A value below 0 needs `CAP_SYS_NICE`.

use std::io;

use rustix::process::setpriority_process;

/// Raises the priority of the calling thread above the ordinary one.
///
/// # Errors
/// `EACCES` without `CAP_SYS_NICE`; the priority is unchanged then.
pub fn raise() -> io::Result<()> {
    Ok(setpriority_process(None, -20)?)
}

/// Sets the ordinary priority for the calling thread, which may have inherited another one.
///
/// # Errors
/// `EACCES` if the thread has a lower priority.
pub fn reset() -> io::Result<()> {
    Ok(setpriority_process(None, 0)?)
}
