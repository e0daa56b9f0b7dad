//! Held ports: which of them are released now, and which sidecars are probed.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Opened, Probe, Tally,
    review::{HoldReview, lease},
    state::{HeldPorts, Hold, HoldPhase, LEASE, TableKind},
};
use crate::{
    base::{id::SandboxId, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    pod::{state::runs::RunState, view::PodView},
    settings::{config::OnDeadline, mode::Mode},
};

/// A sidecar that listens on one of its ports does not use the ports on which it
/// does not listen by then.
const LISTENS_AT_ALL: Duration = Duration::from_secs(1);
/// What a deadline may have lost when the first app starts.
const NEGLIGIBLE: Duration = Duration::from_secs(1);

impl<'engine> HoldReview<'engine> {
    /// A probe succeeded: releases the ports that it guards.
    pub(crate) fn ready(self, hold: &mut Hold, probe: &Probe, actions: &mut Vec<Action>) {
        let (Some(view), Some(sandbox)) = (self.view, &mut hold.sandbox) else {
            return;
        };
        let HoldPhase::Holding(held) = &mut sandbox.phase else {
            return;
        };
        let mut ports = Vec::new();
        for held_port in view.plan.held_ports() {
            if held_port.probe != *probe {
                continue;
            }
            if held.ports.remove(&held_port.port) {
                ports.push(held_port.port);
            }
            held.listens
                .entry(held_port.sidecar.clone())
                .or_insert(self.now);
        }
        let id = sandbox.id.clone();
        if held.ports.is_empty() {
            sandbox.phase = HoldPhase::Releasing {
                why: Opened::Ready,
                held: held.clone(),
                rearm: false,
            };
            actions.push(Action::OpenAll { sandbox: id });
        } else if !ports.is_empty() {
            actions.push(Action::OpenSome { sandbox: id, ports });
        }
    }

    /// Why all ports are released now, if they are. Ports of single sidecars are
    /// released here.
    pub(super) fn why_release(
        self,
        first_run: u64,
        held: &mut HeldPorts,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) -> Option<Opened> {
        let Some(view) = self.view else {
            return (self.now >= held.deadline).then_some(Opened::Deadline);
        };
        let wanted = match self.mode {
            Mode::Off => false,
            Mode::Observe => held.count_only(),
            Mode::Enforce => !held.count_only(),
        };
        if !wanted || self.not_held(view).is_some() {
            return Some(Opened::NotWanted);
        }
        if view.is_ending() {
            return Some(Opened::Ending);
        }
        if self.conditions(view).any_init_container_runs() {
            return Some(Opened::InitContainer);
        }
        for (ports, why) in self.releasable(view, held) {
            let ports: Vec<u16> = ports
                .into_iter()
                .filter(|port| held.ports.remove(port))
                .collect();
            if held.ports.is_empty() {
                return Some(why);
            }
            if !ports.is_empty() {
                let sandbox = id.clone();
                actions.push(Action::OpenSome { sandbox, ports });
            }
        }
        self.watch(view, first_run, held, id, actions);
        self.extend_deadline(view, first_run, held, id, actions);
        self.at_deadline(view, held, id, actions)
    }

    /// Ports of single sidecars that need not be held any more.
    fn releasable(self, view: &'engine PodView, held: &HeldPorts) -> [(Vec<u16>, Opened); 3] {
        let held_ports = view.plan.held_ports();
        let unplanned = held
            .ports
            .iter()
            .copied()
            .filter(|port| held_ports.iter().all(|held_port| held_port.port != *port))
            .collect();
        let (mut ended, mut silent) = (Vec::new(), Vec::new());
        for held_port in &held_ports {
            if self.conditions(view).ended_for_good(&held_port.sidecar) {
                ended.push(held_port.port);
            }
            let listens = held.listens.get(&held_port.sidecar);
            if listens.is_some_and(|at| *at + LISTENS_AT_ALL <= self.now) {
                silent.push(held_port.port);
            }
        }
        [
            (unplanned, Opened::NotWanted),
            (ended, Opened::SidecarEnded),
            (silent, Opened::Ready),
        ]
    }

    /// Starts the probes of the sidecars that run.
    fn watch(
        self,
        view: &PodView,
        first_run: u64,
        held: &mut HeldPorts,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) {
        let mut probes = BTreeSet::new();
        for held_port in view.plan.held_ports() {
            let newest = self.runs.newest(&held_port.sidecar);
            let runs = newest
                .is_some_and(|(_id, run)| run.state == RunState::Running && run.order >= first_run);
            if runs
                && held.ports.contains(&held_port.port)
                && !held.watched.contains(&held_port.probe)
            {
                probes.insert(held_port.probe.clone());
            }
        }
        if !probes.is_empty() {
            held.watched.extend(probes.iter().cloned());
            actions.push(Action::Watch {
                sandbox: id.clone(),
                probes: probes.into_iter().collect(),
            });
        }
    }

    /// While no app has started no connection waits: the deadline counts from the first
    /// app's start, however long the pull of its image takes.
    fn extend_deadline(
        self,
        view: &'engine PodView,
        first_run: u64,
        held: &mut HeldPorts,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) {
        if held.is_timed {
            return;
        }
        held.is_timed = self.conditions(view).any_app_started(first_run);
        if held.is_timed && held.table == TableKind::Adopted {
            // A restart of the agent does not extend the deadline.
            return;
        }
        let enough = if held.is_timed {
            self.now.since(held.from) < NEGLIGIBLE
        } else {
            self.now < half_time(held)
        };
        if enough {
            return;
        }
        let deadline = view.plan.tuning.hold_deadline;
        held.from = self.now;
        held.deadline = self.now + deadline;
        actions.push(Action::Renew {
            sandbox: id.clone(),
            ports: held.ports.iter().copied().collect(),
            timeout: deadline + lease(view),
        });
    }

    fn at_deadline(
        self,
        view: &PodView,
        held: &mut HeldPorts,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) -> Option<Opened> {
        if self.now < held.deadline {
            return None;
        }
        let stays_held = view.plan.tuning.on_deadline == OnDeadline::Closed && !held.count_only();
        if !stays_held {
            return Some(Opened::Deadline);
        }
        if held.renew.is_none() {
            let deadline = view.plan.tuning.hold_deadline;
            actions.push(self.report(None, Kind::HoldStaysClosed { deadline }));
        }
        if held.renew.is_none_or(|at| at <= self.now) {
            held.renew = Some(self.now + LEASE / 2);
            actions.push(Action::Renew {
                sandbox: id.clone(),
                ports: held.ports.iter().copied().collect(),
                timeout: LEASE,
            });
        }
        None
    }

    /// The kernel released ports before this agent did, at the deadline. An app with a
    /// refused connection has exited by then.
    pub(super) fn released_by_kernel(self, held: &HeldPorts, tally: Tally) -> Kind {
        let lease = self.view.map_or(Duration::ZERO, lease);
        let renewed = held.renew.map(|at| at + LEASE / 2);
        let at = renewed.unwrap_or(held.deadline + lease);
        let late = (self.now - tally.ago).since(at);
        let tally = Tally {
            longest: tally.longest.saturating_sub(late),
            ..tally
        };
        held.opened(self.now - late, Opened::Deadline, tally, Vec::new())
    }
}

/// When to review held ports again.
pub(super) fn next_look(held: &HeldPorts, now: Timestamp) -> Timestamp {
    let deadline = if held.is_timed {
        held.renew.unwrap_or(held.deadline)
    } else {
        half_time(held)
    };
    held.listens
        .values()
        .map(|at| *at + LISTENS_AT_ALL)
        .filter(|at| *at > now)
        .chain([deadline])
        .min()
        .unwrap_or(deadline)
}

/// When a deadline that does not count yet is extended.
fn half_time(held: &HeldPorts) -> Timestamp {
    held.from + held.deadline.since(held.from) / 2
}
