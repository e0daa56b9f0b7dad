//! The kubelet and the API server: pods, the agent's Node, Namespaces, Events, the startup taint and the agent's DaemonSet.

pub(crate) mod events;
pub(crate) mod kubelet;
pub(crate) mod namespaces;
pub(crate) mod node_watch;
pub(crate) mod own_daemonset;
pub(crate) mod startup_taint;
