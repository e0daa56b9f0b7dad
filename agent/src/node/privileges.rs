//! The capabilities of each process and thread of the agent: the fewest that its work takes, given up before the work
//! starts.
//!
//! A thread inherits the capabilities of the thread that starts it (capabilities(7)), so the order matters: first the
//! process, then each thread when it starts.

use usher_client::error_chain::chain;
use usher_sys::process::capability::{self, Needed};

use crate::args::Invocation;

/// For the event loop. docs/security.md has the purpose of each.
const EVENT_LOOP: [Needed; 5] = [
    Needed::SysAdmin,
    Needed::SysPtrace,
    Needed::NetAdmin,
    Needed::NetRaw,
    Needed::Kill,
];

const WORKER: [Needed; 5] = EVENT_LOOP;

/// Drops what the process does not need, while it has one thread.
///
/// # Errors
/// [`capability::Error`]: the process runs with the capabilities that it has.
pub(crate) fn drop_at_start(invocation: &Invocation) -> Result<(), capability::Error> {
    let starting = [&EVENT_LOOP[..], &[Needed::SysNice]].concat();
    let needed = match invocation {
        Invocation::Agent(_) => starting.as_slice(),
        // The holder drops the rest when it has its fanotify group.
        Invocation::Holder(_) => &[Needed::SysAdmin],
        Invocation::Worker(_) => &WORKER,
        Invocation::LeaveCluster(_) => &[],
    };
    capability::keep_only(needed)?;
    capability::conceal()
}

/// For the event loop's thread, after it has raised its priority.
pub(crate) fn drop_for_event_loop() {
    log_failure(capability::keep_only(&EVENT_LOOP));
}

/// For a thread that only uses servers and files. The files belong to root, which it is.
pub(crate) fn drop_all() {
    log_failure(capability::keep_only(&[]));
}

/// The agent works with too many capabilities as well.
pub(crate) fn log_failure(dropped: Result<(), capability::Error>) {
    if let Err(error) = dropped {
        tracing::warn!(error = %chain(&error), "could not drop capabilities; running with more than needed");
    }
}
