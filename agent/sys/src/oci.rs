//! A runtime's files about its containers: bundles and state. Also permission events for execs and opens, and notifications
//! of stop commands.

pub mod bundle;
pub mod fanotify;
pub mod runtime_state;
pub mod stop_commands;
