//! Reduces the capabilities of each process and thread of the agent to the minimum before its work starts.
//!
//! A thread inherits the capabilities of its parent (capabilities(7)), so the order matters: first the process, then
//! each thread at its start.

use usher_client::error_chain::chain;
use usher_sys::process::capability::{self, Capability};

use crate::args::Invocation;

/// Capabilities of the event loop and the worker. docs/security.md lists the purpose of each.
const EVENT_LOOP: [Capability; 5] = [
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_KILL,
];

/// Drops what the process does not need. Call it while the process has one thread.
///
/// # Errors
/// [`capability::Error`]: the process continues with all its capabilities.
pub(crate) fn drop_at_start(invocation: &Invocation) -> Result<(), capability::Error> {
    let starting = [&EVENT_LOOP[..], &[Capability::CAP_SYS_NICE]].concat();
    let needed = match invocation {
        Invocation::Agent(_) => starting.as_slice(),
        // The holder drops the others after it has opened its fanotify group.
        Invocation::Holder(_) => &[Capability::CAP_SYS_ADMIN],
        Invocation::Worker(_) => &EVENT_LOOP,
        Invocation::CleanupCluster(_) => &[],
    };
    capability::keep_only(needed)?;
    capability::conceal()
}

/// Called on the event loop's thread after it has raised its priority.
pub(crate) fn drop_for_event_loop() {
    log_failure(capability::keep_only(&EVENT_LOOP));
}

/// For threads that only read processes.
pub(crate) fn drop_for_reads() {
    log_failure(capability::keep_only(&[Capability::CAP_SYS_PTRACE]));
}

/// For threads that only use servers and files. They run as root, which owns the files.
pub(crate) fn drop_all() {
    log_failure(capability::keep_only(&[]));
}

/// Logs the error. The agent also works with too many capabilities.
pub(crate) fn log_failure(dropped: Result<(), capability::Error>) {
    if let Err(error) = dropped {
        tracing::warn!(error = %chain(&error), "could not drop capabilities; running with more than needed");
    }
}
