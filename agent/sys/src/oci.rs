//! What a runtime keeps of its containers: bundles and state, and permission events for execs and opens.

pub mod bundle;
pub mod fanotify;
pub mod runtime_state;
