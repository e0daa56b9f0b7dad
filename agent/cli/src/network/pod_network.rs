//! Guards commands against pods that share the node's network namespace.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nix::errno::Errno;
use usher_core::worker::{MAX_EVALUATIONS, QuarantineReason};
use usher_sys::net::{iptables, netlink::Protocol, netns::Netns, nft};

use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
};

/// How long a command waits for the rules of iptables-legacy. Reading 20,000 rules takes some milliseconds.
const LEGACY_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a thread reads these rules, or waits for the kernel's lock of them.
static IS_READING: AtomicBool = AtomicBool::new(false);

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
) -> Result<Arc<Netns>, Failure> {
    let netns = Arc::new(pod_network(node, target, allow_host, effect)?);
    if !node.is_own_network(&netns) && has_costly_rules(&netns) {
        return Err(Failure::refused(format!(
            "{}: {}, which would take a processor of the node for as long",
            target.pod.display_name(),
            QuarantineReason::CostlyRules
        )));
    }
    Ok(netns)
}

/// Whether a packet may evaluate too many rules. It passes them within the system call that sends it, which cannot be
/// interrupted. Rules that take too long to read are many; others that cannot be read count as none.
fn has_costly_rules(netns: &Arc<Netns>) -> bool {
    let nftables = match netns
        .netlink(Protocol::Netfilter)
        .map(|socket| nft::cost(&socket))
    {
        Ok(Ok(cost)) => cost.evaluations,
        Ok(Err(error))
            if error.is(Errno::EBUSY) || error.source.kind() == io::ErrorKind::TimedOut =>
        {
            return true;
        }
        Ok(Err(_)) | Err(_) => 0,
    };
    nftables.saturating_add(legacy_evaluations(netns)) > MAX_EVALUATIONS
}

/// The evaluations by rules of iptables-legacy, none if they cannot be read in time. Another pod may have their lock for any
/// time, and the call cannot be interrupted, so it runs on a thread of its own.
fn legacy_evaluations(netns: &Arc<Netns>) -> u64 {
    if IS_READING.swap(true, Ordering::Relaxed) {
        return 0;
    }
    let (done, evaluations) = mpsc::channel();
    let netns = Arc::clone(netns);
    thread::spawn(move || {
        let read = iptables::evaluations(&netns).unwrap_or_default();
        IS_READING.store(false, Ordering::Relaxed);
        done.send(read)
    });
    evaluations.recv_timeout(LEGACY_TIMEOUT).unwrap_or_default()
}
