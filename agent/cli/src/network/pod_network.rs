//! Guards commands against pods that share the node's network namespace.

use usher_core::worker::{MAX_EVALUATIONS, Trouble};
use usher_sys::net::{netlink::Protocol, netns::Netns, nft};

use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

/// Opens the pod's network namespace. The node's own is opened only with `allow_host`; `effect` describes what the
/// command would do there.
pub(crate) fn pod_network(
    node: &Node,
    target: &Target,
    allow_host: bool,
    effect: &str,
) -> Result<Netns, Failure> {
    let netns = target.netns(node)?;
    // Compare the namespaces too: without the kubelet's list, hostNetwork is not known.
    if (node.is_own_network(&netns) || target.pod.host_network) && !allow_host {
        return Err(Failure::refused(format!(
            "{} uses the node's network namespace: {effect}. Use --host-network to allow this",
            target.pod.display_name()
        )));
    }
    Ok(netns)
}

/// Opens the pod's network namespace to send packets from it: as [`pod_network`], and a pod with costly rules is refused.
pub(crate) fn sending_network(
    node: &Node,
    target: &Target,
    allow_host: bool,
    effect: &str,
) -> Result<Netns, Failure> {
    let netns = pod_network(node, target, allow_host, effect)?;
    if !allow_host {
        refuse_costly_rules(&netns, &target.pod.display_name())?;
    }
    Ok(netns)
}

/// Rejects a pod with costly rules: a packet passes them within the system call that sends it, which cannot be
/// interrupted.
fn refuse_costly_rules(netns: &Netns, pod: &str) -> Result<(), Failure> {
    let cost = netns
        .netlink(Protocol::Netfilter)
        .ok()
        .and_then(|socket| nft::cost(&socket).ok());
    match cost {
        Some(cost) if cost.evaluations > MAX_EVALUATIONS => Err(Failure::refused(format!(
            "{pod}: {}, which would take a processor of the node for as long",
            Trouble::CostlyRules
        ))),
        _ => Ok(()),
    }
}
