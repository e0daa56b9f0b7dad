//! The interfaces, addresses and routes of a pod, by rtnetlink in its network namespace. The pod's images need no tool.

use usher_client::error_chain::chain;
use usher_core::node::network::Network;
use usher_sys::net::link::Links;

use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

/// Lists the pod's network. For a pod that shares the node's network, sets only `host_network`.
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
    if node.is_own_network(&netns) {
        return Ok(shared);
    }
    Links::open(&netns)
        .and_then(|links| links.network())
        .map_err(|error| Failure::refused(chain(&error)))
}
