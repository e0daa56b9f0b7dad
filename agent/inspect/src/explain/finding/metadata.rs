//! A proxy that waits for a cloud's metadata server.
//!
//! At their start, pilot-agent and some database proxies query 169.254.169.254 to detect their cloud. If the network
//! drops these packets instead of rejecting them, each query lasts until its timeout: 2 s were measured for
//! pilot-agent. The evidence is a connection of the sidecar that has sent a SYN and has no reply.

use std::net::{IpAddr, Ipv4Addr};

use usher_core::node::socket::{Socket, State};

use super::{Finding, Id};
use crate::explain::Case;

const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

pub(super) fn find(case: &Case<'_>) -> Option<Finding> {
    let waits =
        |one: &&Socket| one.state == State::SynSent && one.peer.ip().to_canonical() == METADATA;
    let socket = case.seen.sockets.iter().flatten().find(waits)?;
    let (sidecar, _) = case
        .sidecars()
        .map(|(sidecar, container)| (container, &sidecar.identity.users[..]))
        .chain(case.natives().map(|native| (native, &[][..])))
        .find(|(container, users)| {
            container.user == Some(socket.uid) || users.contains(&socket.uid)
        })?;
    let name = &sidecar.name;
    let problem = format!("sidecar {name} waits for a cloud metadata server that does not reply");
    let finding = Finding::warning(Id::MetadataWait, problem)
        .about(name)
        .because(
            format!("socket :{} of user {}", socket.local.port(), socket.uid),
            format!(
                "SYN_SENT to {METADATA}, retransmitted {} times",
                socket.retransmits
            ),
        );
    if case.istio().is_none_or(|proxy| proxy.name != *name) {
        return Some(finding.fix(
            "Make the network reject connections to the metadata server at once, or allow them.",
            "",
        ));
    }
    let cloud = sidecar.variable("CLOUD_PLATFORM").unwrap_or("absent");
    Some(
        finding
            .because(sidecar.env_path("CLOUD_PLATFORM"), cloud)
            .fix(
                "Declare that the proxy runs in no cloud, for all pods or by this pod's annotation.",
                "metadata:\n  annotations:\n    proxy.istio.io/config: |\n      proxyMetadata:\n        CLOUD_PLATFORM: none",
            ),
    )
}
