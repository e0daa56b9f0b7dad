//! Containers before they run: the runtime's bundles, and permission events for their first exec.

pub mod bundle;
pub mod fanotify;
