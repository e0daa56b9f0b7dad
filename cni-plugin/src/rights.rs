//! Drops capabilities ([capabilities(7)](https://man7.org/linux/man-pages/man7/capabilities.7.html)).
//!
//! A runtime starts the plugin with the runtime's own capabilities. The plugin only opens a namespace and a socket. It
//! stays root, which owns the files and the socket.

use caps::{CapSet, Capability, CapsHashSet, errors::CapsError};

/// Required for a namespace path below `/proc/PID` of the sandbox.
const NEEDED: Capability = Capability::CAP_SYS_PTRACE;

/// Capabilities could not be dropped.
#[derive(Debug, thiserror::Error)]
#[error("reading or changing the {set} capabilities")]
pub(crate) struct Error {
    set: &'static str,
    source: CapsError,
}

/// Permanently drops all capabilities but one. The process has no other thread and executes no other program.
///
/// # Errors
/// [`Error`]; the process then keeps capabilities that it does not need.
pub(crate) fn drop_unneeded() -> Result<(), Error> {
    let failed = |set| move |source| Error { set, source };
    let had = caps::read(None, CapSet::Permitted).map_err(failed("permitted"))?;
    let kept: CapsHashSet = had.into_iter().filter(|one| *one == NEEDED).collect();
    caps::clear(None, CapSet::Inheritable).map_err(failed("inheritable"))?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed("effective"))?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed("permitted"))
}
