//! The kubelet and the API server: pods, the agent's Node, Namespaces, Events and the startup taint.

pub(crate) mod events;
pub(crate) mod kubelet;
pub(crate) mod namespaces;
pub(crate) mod node_watch;
pub(crate) mod startup_taint;
