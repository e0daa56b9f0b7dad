//! What this process may do: a runtime starts it with all that it has itself, and it opens a namespace and a socket.
//!
//! [capabilities(7)](https://man7.org/linux/man-pages/man7/capabilities.7.html). Files and socket are root's, which it
//! stays.

use caps::{CapSet, Capability, CapsHashSet, errors::CapsError};

/// Looking at the namespaces of a process of others: a runtime may name the sandbox's by its process.
const NEEDED: Capability = Capability::CAP_SYS_PTRACE;

/// They could not be given up.
#[derive(Debug, thiserror::Error)]
#[error("reading or changing the {set} capabilities")]
pub(crate) struct Error {
    set: &'static str,
    source: CapsError,
}

/// Gives up all capabilities but the one, for good. It has no other thread and executes no other program.
///
/// # Errors
/// [`Error`]; it may do more than it needs then.
pub(crate) fn give_up() -> Result<(), Error> {
    let failed = |set| move |source| Error { set, source };
    let had = caps::read(None, CapSet::Permitted).map_err(failed("permitted"))?;
    let kept: CapsHashSet = had.into_iter().filter(|one| *one == NEEDED).collect();
    caps::clear(None, CapSet::Inheritable).map_err(failed("inheritable"))?;
    caps::set(None, CapSet::Effective, &kept).map_err(failed("effective"))?;
    caps::set(None, CapSet::Permitted, &kept).map_err(failed("permitted"))
}
