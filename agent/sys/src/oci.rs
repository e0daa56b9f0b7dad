//! A runtime's files about its containers: bundles and state. Also permission events for execs and opens.

pub mod bundle;
pub mod fanotify;
pub mod runtime_state;
