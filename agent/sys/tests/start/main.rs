//! What the hold of a start is made of, on the real kernel: execs that wait, bundles of a runtime, and what keeps the
//! process that holds them harmless. File systems are mounted in a mount namespace of each test's own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod bundle;
mod capability;
mod fanotify;
mod process;
mod scratch;
mod watchdog;
