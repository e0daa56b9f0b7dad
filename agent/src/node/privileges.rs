//! What a process of usher may do, as little as its work takes, and given up for good before it does any of it.
//!
//! A thread has what its maker had when it was made (capabilities(7)), so the order counts: the process first, each
//! thread when it begins.

use usher_client::error_chain::chain;
use usher_sys::process::capability::{self, Needed};

use crate::args::Invocation;

/// Of the thread that decides: see docs/security.md, where each has its purpose.
const DECIDING: [Needed; 5] = [
    Needed::SysAdmin,
    Needed::SysPtrace,
    Needed::NetAdmin,
    Needed::NetRaw,
    Needed::Kill,
];

/// What the process may do from its first step on, before it has a second thread.
///
/// # Errors
/// [`capability::Error`]; it goes on with what it has.
pub(crate) fn at_start(invocation: &Invocation) -> Result<(), capability::Error> {
    let starting = [&DECIDING[..], &[Needed::SysNice]].concat();
    let needed = match invocation {
        Invocation::Agent(_) => starting.as_slice(),
        // It gives up the rest when it has its group.
        Invocation::Holder(_) => &[Needed::SysAdmin],
        Invocation::LeaveCluster(_) => &[],
    };
    capability::keep_only(needed)?;
    capability::conceal()
}

/// The thread that decides, when it runs before ordinary ones.
pub(crate) fn deciding() {
    told(capability::keep_only(&DECIDING));
}

/// A thread that talks to servers and to disks: what it opens is root's, which it is.
pub(crate) fn none() {
    told(capability::keep_only(&[]));
}

/// A right more than needed is no reason not to work.
pub(crate) fn told(outcome: Result<(), capability::Error>) {
    if let Err(error) = outcome {
        tracing::warn!(error = %chain(&error), "could not give up capabilities; goes on with more than it needs");
    }
}
