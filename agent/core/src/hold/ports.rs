//! Held ports: which of them are released now, and which sidecars are probed.

use std::{collections::BTreeSet, time::Duration};

use super::{
    HeldPort, Probe, Released, Tally,
    review::{HoldReview, lease},
    state::{HeldPorts, Hold, HoldPhase, LEASE, RENEWAL},
};
use crate::{
    base::{id::SandboxId, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    pod::{state::runs::RunState, view::PodView},
    settings::{config::OnDeadline, mode::Mode},
};

/// A deadline is not extended if less time has passed when the first app starts.
const NEGLIGIBLE: Duration = Duration::from_secs(1);
/// How long an agent that did not run at the deadline waits for the containers that started meanwhile. They arrive one
/// after the other.
const CATCHING_UP: Duration = Duration::from_millis(100);
/// When a probe that could not be made is repeated: too many jobs wait, or the pod is in quarantine.
const PROBE_RETRY: Duration = Duration::from_secs(2);

impl<'engine> HoldReview<'engine> {
    /// A probe succeeded: releases the ports that it guards.
    pub(crate) fn ready(self, hold: &mut Hold, probe: &Probe, actions: &mut Vec<Action>) {
        let (Some(view), Some(sandbox)) = (self.view, &mut hold.sandbox) else {
            return;
        };
        let HoldPhase::Holding(held) = &mut sandbox.phase else {
            return;
        };
        if let Probe::Listens { port } = probe {
            held.listening.entry(*port).or_insert(self.now);
        }
        let ports: Vec<u16> = view
            .plan
            .held_ports()
            .into_iter()
            .filter(|held_port| held_port.probe == *probe && held.ports.remove(&held_port.port))
            .map(|held_port| held_port.port)
            .collect();
        if held.ports.is_empty() {
            let why = held.reason(Released::Ready);
            sandbox.release(why, false, actions);
        } else if !ports.is_empty() {
            let sandbox = sandbox.id.clone();
            actions.push(Action::ReleasePorts { sandbox, ports });
        }
    }

    /// A probe could not be made. Without it, its ports would be held until the deadline, or for ever.
    pub(crate) fn probe_failed(self, hold: &mut Hold, probe: Probe) {
        if let Some(sandbox) = &mut hold.sandbox
            && let HoldPhase::Holding(held) = &mut sandbox.phase
            && held.watched.contains(&probe)
        {
            held.probe_retries.insert(probe, self.now + PROBE_RETRY);
        }
    }

    /// Why all ports are released now, if they are. Ports of single sidecars are released here.
    pub(super) fn why_release(
        self,
        first_run: u64,
        held: &mut HeldPorts,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) -> Option<Released> {
        let Some(view) = self.view else {
            return (self.now >= held.deadline).then_some(Released::Deadline);
        };
        let wanted = match self.mode {
            Mode::Off => false,
            Mode::Observe => held.count_only(),
            Mode::Enforce => !held.count_only(),
        };
        if !wanted || self.not_held(view).is_some() {
            return Some(Released::NotWanted);
        }
        if view.is_ending() {
            return Some(Released::Ending);
        }
        if self.conditions(view).any_init_container_runs() {
            return Some(Released::InitContainer);
        }
        self.forget_listeners_of_earlier_runs(view, held);
        for (ports, why) in self.releasable(view, held) {
            held.probe_failed |= why == Released::ProbeFailed && !ports.is_empty();
            let ports: Vec<u16> = ports
                .into_iter()
                .filter(|port| held.ports.remove(port))
                .collect();
            if held.ports.is_empty() {
                return Some(held.reason(why));
            }
            if !ports.is_empty() {
                let sandbox = id.clone();
                actions.push(Action::ReleasePorts { sandbox, ports });
            }
        }
        self.watch(view, first_run, held, id, actions);
        self.extend_deadline(view, first_run, held, id, actions);
        self.at_deadline(view, held, id, actions)
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
        let due = |_: &Probe, at: &mut Timestamp| *at <= self.now;
        for (probe, _at) in held.probe_retries.extract_if(.., due) {
            held.watched.remove(&probe);
        }
        let is_up = |name: &str| {
            self.runs
                .newest(name)
                .is_some_and(|(_id, run)| run.state == RunState::Running && run.order >= first_run)
        };
        let probes: BTreeSet<Probe> = view
            .plan
            .claims()
            .filter(|claim| held.ports.contains(&claim.port) && is_up(&claim.sidecar))
            .flat_map(HeldPort::probes)
            .filter(|probe| !held.watched.contains(probe))
            .collect();
        if !probes.is_empty() {
            held.watched.extend(probes.iter().cloned());
            actions.push(Action::Watch {
                sandbox: id.clone(),
                probes: probes.into_iter().collect(),
            });
        }
    }

    /// No connection is held or counted before an app has started. So the deadline counts from the first app's start,
    /// however long the pull of its image takes.
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
        let conditions = self.conditions(view);
        held.is_timed = conditions.any_app_started(first_run);
        // This agent did not run at the deadline, and the kernel has released the ports: an app that has started since
        // is not held again. If its name is not known by then, a container without a name counts as an app.
        if self.now >= held.deadline + lease(view) {
            let since = *held.over_since.get_or_insert(self.now);
            if held.is_timed || self.now < since + CATCHING_UP {
                return;
            }
            held.is_timed = conditions.any_unnamed_run(first_run);
            if held.is_timed {
                return;
            }
        }
        if held.is_timed && held.is_adopted() && held.from == held.since {
            // The app may have started before this agent: a restart does not extend the deadline.
            return;
        }
        let enough = if held.is_timed {
            self.now.since(held.from) < NEGLIGIBLE
        } else {
            self.now < extension(held)
        };
        if enough {
            return;
        }
        let deadline = view.plan.tuning.hold_deadline;
        held.from = self.now;
        held.deadline = self.now + deadline;
        held.over_since = None;
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
    ) -> Option<Released> {
        // Without an app the hold begins anew.
        let is_extended = !held.is_timed && held.over_since.is_some();
        if self.now < held.deadline || is_extended {
            return None;
        }
        let stays_held = view.plan.tuning.on_deadline == OnDeadline::Closed && !held.count_only();
        if !stays_held {
            return Some(Released::Deadline);
        }
        if held.renew.is_none() {
            let deadline = view.plan.tuning.hold_deadline;
            actions.push(self.report(None, Kind::HoldExtended { deadline }));
        }
        if held.renew.is_none_or(|at| at <= self.now) {
            held.renew = Some(self.now + RENEWAL);
            actions.push(Action::Renew {
                sandbox: id.clone(),
                ports: held.ports.iter().copied().collect(),
                timeout: LEASE,
            });
        }
        None
    }

    pub(super) fn next_look(self, held: &HeldPorts) -> Timestamp {
        // Without a view nothing extends the deadline.
        let deadline = if held.is_timed || self.view.is_none() {
            held.renew.unwrap_or(held.deadline)
        } else {
            let over = held.over_since.map(|since| since + CATCHING_UP);
            over.unwrap_or_else(|| extension(held))
        };
        self.view
            .map_or_else(Vec::new, |view| self.timed_releases(view, held))
            .into_iter()
            .map(|release| release.at)
            .chain(held.probe_retries.values().copied())
            .filter(|at| *at > self.now)
            .fold(deadline, Timestamp::min)
    }

    /// The kernel released ports before this agent did, at the deadline. An app with a
    /// refused connection has exited by then.
    pub(super) fn released_by_kernel(self, held: &HeldPorts, tally: Tally) -> Kind {
        let lease = self.view.map_or(Duration::ZERO, lease);
        let renewed = held.renew.map(|at| at + (LEASE - RENEWAL));
        let at = renewed.unwrap_or(held.deadline + lease);
        let late = (self.now - tally.ago).since(at);
        let tally = Tally {
            longest: tally.longest.saturating_sub(late),
            ..tally
        };
        held.released(self.now - late, Released::Deadline, tally, Vec::new())
    }
}

/// When the deadline is extended while no app has started: early enough for the next extension, if a worker process
/// that ends loses this one.
fn extension(held: &HeldPorts) -> Timestamp {
    held.from + held.deadline.since(held.from) / 3
}
