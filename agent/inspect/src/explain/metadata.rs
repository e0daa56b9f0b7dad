//! A proxy that waits for a cloud's metadata.
//!
//! At their start pilot-agent and some database proxies ask 169.254.169.254 which cloud they are in. Where packets to it
//! are dropped, rather than refused, each question lasts until its timeout: 2 s were measured for pilot-agent. Seen are
//! connections of the sidecar that have sent a SYN and have no answer.

use std::net::{IpAddr, Ipv4Addr};

use super::{Case, Finding, Id, Severity};

const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let sockets = case.seen.sockets.iter().flatten();
    let mut waiting =
        sockets.filter(|socket| socket.connecting_to.is_some_and(|(to, _)| to == METADATA));
    let Some(socket) = waiting.next() else {
        return Vec::new();
    };
    let regular = case
        .sidecars()
        .map(|(sidecar, container)| (container, &sidecar.identity.users[..]));
    let natives = case
        .facts
        .init
        .iter()
        .filter(|container| container.is_native);
    let mut all = regular.chain(natives.map(|native| (native, &[][..])));
    let owner = all.find(|(container, users)| {
        container.user == Some(socket.user) || users.contains(&socket.user)
    });
    let Some((sidecar, _users)) = owner else {
        return Vec::new();
    };
    let name = &sidecar.name;
    let is_istio = case.istio().is_some_and(|proxy| proxy.name == *name);
    let problem =
        format!("sidecar {name} waits for a cloud's metadata server that does not answer");
    let mut finding = Finding::new(Id::MetadataWait, Severity::Warning, problem)
        .about(name)
        .by(
            format!("socket :{} of user {}", socket.port, socket.user),
            format!(
                "SYN_SENT to {METADATA}, sent again {} times",
                socket.retransmitted
            ),
        );
    if !is_istio {
        return vec![finding.mend(
            "Have the network refuse connections to the metadata server at once, or let them through.",
            "",
        )];
    }
    let cloud = sidecar.variable("CLOUD_PLATFORM").unwrap_or("absent");
    finding = finding.by(format!("{}.env[CLOUD_PLATFORM]", sidecar.place), cloud);
    vec![finding.mend(
        "Tell the proxy that it is in no cloud, for all pods or by this pod's annotation.",
        "metadata:\n  annotations:\n    proxy.istio.io/config: |\n      proxyMetadata:\n        CLOUD_PLATFORM: none",
    )]
}
