//! The interfaces, addresses and routes of a pod, by rtnetlink in its network namespace. The pod's images need no tool.

use usher_client::error_chain::chain;
use usher_core::{base::id::Pid, node::network::Network};
use usher_sys::net::{link::Links, netns::Netns};

use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

/// The process that is in the host's own namespaces.
const HOST_INIT: Pid = Pid(1);

/// Lists the pod's network. For a pod that shares the node's network it says only that.
///
/// # Errors
/// When the pod has no process any more, or the kernel refuses.
pub(crate) fn list(node: &Node, target: &Target) -> Result<Network, Failure> {
    let shared = Network {
        host_network: true,
        ..Network::default()
    };
    if target.pod.host_network {
        return Ok(shared);
    }
    let netns = target.netns(node)?;
    // Without the kubelet's list the pod's hostNetwork is unknown.
    if is_of_node(node, &netns) {
        return Ok(shared);
    }
    Links::open(&netns)
        .and_then(|links| links.network())
        .map_err(|error| Failure::refused(chain(&error)))
}

/// Whether a network namespace is the node's own.
pub(crate) fn is_of_node(node: &Node, netns: &Netns) -> bool {
    Netns::of_process(&node.proc, HOST_INIT).is_ok_and(|host| host.id() == netns.id())
}
