//! The parts of a held start on the real kernel: waiting execs, a runtime's bundles, and the safeguards of the process
//! that holds execs. Each test has its own mount namespace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod bundle;
mod capability;
mod fanotify;
mod process;
mod scratch;
mod watchdog;
