//! Ports that are released because of the listeners of their sidecar, or because it ended.
//!
//! A port that a recipe names is released by its own listener. A port that a recipe assumes, such as a database
//! proxy's before the engine is known, is released when its sidecar listens elsewhere. A captured port whose
//! readiness probe does not succeed is released when the proxy has listened for [`PROBE_GRACE`]: without usher its
//! connections would reach the proxy.

use std::{collections::BTreeSet, time::Duration};

use super::{HeldPort, Probe, Released, review::HoldReview, state::HeldPorts};
use crate::{
    base::time::Timestamp,
    plan::{Plan, Sidecar},
    pod::view::PodView,
};

/// After this time, a sidecar that listens on one of its assumed ports does not use the others.
const ASSUMED_GRACE: Duration = Duration::from_secs(1);
/// How long the readiness probe of a proxy that listens may fail.
pub(crate) const PROBE_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
pub(super) struct TimedRelease {
    port: u16,
    pub(super) at: Timestamp,
    why: Released,
}

impl HeldPort {
    pub(crate) fn probes(&self) -> impl Iterator<Item = Probe> {
        let captured = self.captured.map(|port| Probe::Listens { port });
        captured.into_iter().chain([self.probe.clone()])
    }
}

impl<'engine> HoldReview<'engine> {
    /// Ports of single sidecars that may be released.
    pub(super) fn releasable(
        self,
        view: &'engine PodView,
        held: &HeldPorts,
    ) -> [(Vec<u16>, Released); 4] {
        let claims: Vec<&HeldPort> = view.plan.claims().collect();
        let is_unplanned = |port: &u16| claims.iter().all(|claim| claim.port != *port);
        let has_ended = |port: &u16| {
            claims
                .iter()
                .filter(|claim| claim.port == *port)
                .all(|claim| self.conditions(view).ended_for_good(&claim.sidecar))
        };
        let (unplanned, planned): (Vec<u16>, Vec<u16>) =
            held.ports.iter().partition(|port| is_unplanned(port));
        let ended = planned.into_iter().filter(has_ended).collect();
        let timed = self.timed_releases(view, held);
        let due = |why: Released| {
            timed
                .iter()
                .filter(|release| release.at <= self.now && release.why == why)
                .map(|release| release.port)
                .collect()
        };
        [
            (unplanned, Released::NotWanted),
            (ended, Released::SidecarEnded),
            (due(Released::Ready), Released::Ready),
            (due(Released::ProbeFailed), Released::ProbeFailed),
        ]
    }

    /// The held ports that are released without a probe of their own, and when.
    pub(super) fn timed_releases(
        self,
        view: &'engine PodView,
        held: &HeldPorts,
    ) -> Vec<TimedRelease> {
        view.plan
            .held_ports()
            .into_iter()
            .filter(|held_port| held.ports.contains(&held_port.port))
            .filter_map(|held_port| match held_port.captured {
                Some(captured) => self.release_of_captured(view, held, held_port, captured),
                None if held_port.is_assumed => self.release_of_assumed(view, held, held_port),
                None => None,
            })
            .collect()
    }

    fn release_of_captured(
        self,
        view: &PodView,
        held: &HeldPorts,
        held_port: &HeldPort,
        captured: u16,
    ) -> Option<TimedRelease> {
        if !self.runs.is_living(&held_port.sidecar) {
            return None;
        }
        let listens = held.listening.get(&captured);
        let (since, why) = match listens {
            Some(since) => (*since, Released::ProbeFailed),
            // All its upstreams on loopback have listeners, so this pod has no captured connections.
            None => (
                self.all_local_listen(view, held, &held_port.sidecar)?,
                Released::Ready,
            ),
        };
        Some(TimedRelease {
            port: held_port.port,
            at: since + PROBE_GRACE,
            why,
        })
    }

    /// When a mesh proxy had listeners on all its known local ports; None where it has no such port.
    fn all_local_listen(
        self,
        view: &PodView,
        held: &HeldPorts,
        sidecar: &str,
    ) -> Option<Timestamp> {
        view.plan
            .claims()
            .filter(|claim| claim.sidecar == sidecar && claim.captured.is_none())
            .map(|claim| held.listening.get(&claim.port).copied())
            .reduce(|one, other| Some(one?.max(other?)))?
    }

    fn release_of_assumed(
        self,
        view: &'engine PodView,
        held: &HeldPorts,
        held_port: &HeldPort,
    ) -> Option<TimedRelease> {
        let group = alternatives(&view.plan, held_port.port);
        let expected: usize = group
            .iter()
            .filter(|sidecar| !self.conditions(view).ended_for_good(&sidecar.name))
            .map(|sidecar| sidecar.assumed_listeners)
            .sum();
        let listeners: Vec<Timestamp> = assumed_ports(&group)
            .iter()
            .filter_map(|port| held.listening.get(port).copied())
            .collect();
        let newest = listeners.iter().max()?;
        (listeners.len() >= expected).then_some(TimedRelease {
            port: held_port.port,
            at: *newest + ASSUMED_GRACE,
            why: Released::Ready,
        })
    }

    /// Forgets the listeners of earlier runs: a restarted sidecar may not listen yet.
    pub(super) fn forget_listeners_of_earlier_runs(self, view: &PodView, held: &mut HeldPorts) {
        for claim in view.plan.claims() {
            let Some(port) = claim.captured else {
                continue;
            };
            let newest = self.runs.newest(&claim.sidecar);
            let started = newest.and_then(|(_id, run)| run.since);
            let listens = held.listening.get(&port);
            if started > listens.copied() && listens.is_some() {
                held.listening.remove(&port);
                let probe = Probe::Listens { port };
                held.watched.remove(&probe);
                held.probe_retries.remove(&probe);
            }
        }
    }
}

/// The sidecars that may listen at an assumed port, and all that share assumed ports with them: which of them listens
/// at which port is unknown.
fn alternatives(plan: &Plan, port: u16) -> Vec<&Sidecar> {
    let assumes = |sidecar: &Sidecar, port: u16| {
        let mut held_ports = sidecar.held_ports.iter();
        held_ports.any(|held_port| held_port.is_assumed && held_port.port == port)
    };
    let mut group: Vec<&Sidecar> = plan
        .sidecars
        .iter()
        .filter(|sidecar| assumes(sidecar, port))
        .collect();
    loop {
        let ports = assumed_ports(&group);
        let all: Vec<&Sidecar> = plan
            .sidecars
            .iter()
            .filter(|sidecar| ports.iter().any(|port| assumes(sidecar, *port)))
            .collect();
        if all.len() == group.len() {
            return group;
        }
        group = all;
    }
}

fn assumed_ports(sidecars: &[&Sidecar]) -> BTreeSet<u16> {
    sidecars
        .iter()
        .flat_map(|sidecar| &sidecar.held_ports)
        .filter(|held_port| held_port.is_assumed)
        .map(|held_port| held_port.port)
        .collect()
}
