//! Scenarios of held connections.

mod adopted;
mod again;
mod announced;
mod deadline;
mod expired;
mod failed;
mod field;
mod found;
mod late;
mod never_longer;
mod property;
mod recipe;
mod release;
mod start;

use std::{collections::BTreeMap, time::Duration};

use super::stage::{PROXY, Stage, container, key, pod, uid};
use crate::{
    Action, Event,
    base::id::SandboxId,
    cni::protocol::{PodName, Request},
    decision::Kind,
    hold::{Features, Probe, Remains, Tally, ruleset::Queue},
    pod::{restart_policy::RestartPolicy, spec::Pod},
    settings::mode::Mode,
};

/// The text of an action or a report about connections.
pub(super) fn line(action: &Action) -> Option<String> {
    let numbers = |ports: &[u16]| {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        ports.join(" ")
    };
    Some(match action {
        Action::Answer { reply, .. } => {
            let reason = reply.reason.as_ref().map(|reason| format!(": {reason}"));
            format!("answer {:?}{}", reply.outcome, reason.unwrap_or_default())
        }
        Action::Arm { wanted, .. } => {
            let held_ports = wanted.ports.iter();
            let held_ports: Vec<String> = held_ports
                .map(|held_port| format!("{} {:?}", held_port.port, held_port.timeout))
                .collect();
            let dns = wanted.dns.map(|dns| format!(", dns {dns:?}"));
            let count = if wanted.count_only { ", count" } else { "" };
            format!(
                "arm {}, users {:?}{}{count}",
                held_ports.join(", "),
                wanted.exempt_uids,
                dns.unwrap_or_default()
            )
        }
        Action::Watch { probes, .. } => format!("watch {probes:?}"),
        Action::ReleasePorts { ports, .. } => format!("release {}", numbers(ports)),
        Action::ReleaseAll { .. } => "release all".to_owned(),
        Action::Renew { ports, timeout, .. } => {
            format!("renew {} {timeout:?}", numbers(ports))
        }
        Action::Forget { .. } => "forget".to_owned(),
        Action::Look { .. } => "look".to_owned(),
        Action::HoldStarts { starts, .. } => {
            let starts = starts.iter();
            let starts: Vec<String> = starts
                .map(|start| format!("{} {:?}", start.container, start.limit))
                .collect();
            format!("starts [{}]", starts.join(", "))
        }
        Action::ReleaseStart { .. } => "release start".to_owned(),
        Action::Repair { wanted, .. } => {
            let held_ports = wanted.ports.iter();
            let held_ports: Vec<String> = held_ports
                .map(|held_port| format!("{} {:?}", held_port.port, held_port.timeout))
                .collect();
            format!("repair {}", held_ports.join(", "))
        }
        Action::Report(decision) => match &decision.kind {
            kind @ (Kind::NotHeld(_)
            | Kind::HoldArmed { .. }
            | Kind::HoldReleased { .. }
            | Kind::HoldFailed(_)
            | Kind::HoldExtended { .. }
            | Kind::HoldAdopted { .. }
            | Kind::StartHeld(_)
            | Kind::StartReleased { .. }
            | Kind::StartMissed
            | Kind::StartNotHeld(_)
            | Kind::WouldHold { .. }) => format!("{}: {}", kind.into_str(), kind.reason()),
            _ => return None,
        },
        _ => return None,
    })
}

pub(super) const WATCH: &str =
    "watch [Listens { port: 15001 }, Answers { port: 15021, path: \"/healthz/ready\" }]";
pub(super) const ARMED: &str =
    "hold-armed: connections to istio-proxy :15001 are held, for at most 30s";
pub(super) const ARM: &str = "arm 15001 30s, users [1337]";

pub(super) fn sandbox() -> SandboxId {
    SandboxId::parse(&"5a".repeat(32)).unwrap()
}

pub(super) fn ready() -> Probe {
    Probe::Answers {
        port: 15021,
        path: "/healthz/ready".to_owned(),
    }
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod on a node with the hold enabled, listed by the kubelet.
pub(super) fn held(mode: Mode, spec: Pod) -> Stage {
    let mut stage = bare(mode, spec);
    stage.send(Event::PodAppeared(uid()));
    stage.list();
    stage
}

pub(super) fn bare(mode: Mode, spec: Pod) -> Stage {
    let mut stage = Stage::new(Mode::Off, spec);
    stage.hold_mode = mode;
    stage.mode(Mode::Off);
    stage.send(Event::Kernel(Features {
        hold: Ok(()),
        dns: Some(Queue::Compat),
        start: Ok(()),
    }));
    stage
}

impl Stage {
    pub(super) fn announce(&mut self) {
        self.announce_as(Some(uid()));
    }

    pub(super) fn announce_as(&mut self, uid: Option<crate::base::id::PodUid>) {
        self.send(Event::Sandbox(Request {
            pod: PodName {
                namespace: "shop".to_owned(),
                name: "report".to_owned(),
                uid,
            },
            sandbox: sandbox(),
            interface: "eth0".to_owned(),
        }));
    }

    pub(super) fn armed(&mut self) {
        let sandbox = sandbox();
        let result = Ok(());
        self.send(Event::Armed { sandbox, result });
    }

    pub(super) fn probed(&mut self, probe: Probe) {
        let sandbox = sandbox();
        self.send(Event::Ready { sandbox, probe });
    }

    pub(super) fn released(&mut self, connections: usize) {
        self.tallied(Tally {
            connections,
            longest: Duration::from_millis(240),
            ..Tally::default()
        });
    }

    /// Reports that the held ports are released, with this tally.
    pub(super) fn tallied(&mut self, tally: Tally) {
        self.send(Event::Released {
            sandbox: sandbox(),
            result: Ok(tally),
        });
    }

    pub(super) fn take_hold(&mut self) -> Vec<String> {
        std::mem::take(&mut self.hold)
    }

    /// Announces the pod and holds its ports.
    pub(super) fn hold(&mut self) {
        self.announce();
        self.armed();
        self.take_hold();
    }
}

pub(super) fn istio() -> Pod {
    pod(RestartPolicy::Never, &["app"])
}

/// Istio's proxy and Dapr's.
pub(super) fn two_sidecars() -> Pod {
    let mut spec = istio();
    spec.containers.push(container("daprd"));
    spec.containers[2].image = "ghcr.io/dapr/daprd:1.14.0".to_owned();
    spec
}
