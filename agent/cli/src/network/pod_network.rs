//! Pods that are in the node's own network: what is asked of them there is asked of the node.

use usher_sys::net::netns::Netns;

use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
    network::links::is_of_node,
};

/// Opens the pod's network namespace; one that is the node's only where that is `meant`. `otherwise` says what would be done
/// there.
pub(crate) fn pod_network(
    node: &Node,
    target: &Target,
    meant: bool,
    otherwise: &str,
) -> Result<Netns, Failure> {
    let netns = target.netns(node)?;
    // Without the kubelet nobody says hostNetwork, and what cannot be looked at says nothing.
    if (is_of_node(node, &netns) || target.pod.host_network) && !meant {
        return Err(Failure::refused(format!(
            "{} is in the node's own network: {otherwise}. --host-network says that this is meant",
            target.display_name()
        )));
    }
    Ok(netns)
}
