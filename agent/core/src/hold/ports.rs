//! Doors that are shut: which of them open now, and which sidecars are watched.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Opened, Probe, Tally,
    conditions::Known,
    lifecycle::{Holding, LEASE},
    state::{Shut, State},
};
use crate::{
    base::{id::SandboxId, time::Timestamp},
    decision::Kind,
    engine::action::Action,
    pod::state::{RunState, Tracked},
    quit::report,
    settings::{config::OnDeadline, mode::Mode},
};

/// A sidecar whose one port is listened at does not listen at those that are
/// not by then.
const LISTENS_AT_ALL: Duration = Duration::from_secs(1);
/// What a deadline may have lost when the first app starts.
const NEGLIGIBLE: Duration = Duration::from_secs(1);

impl Holding<'_> {
    /// A probe has come true: what it opens is opened.
    pub(crate) fn ready(self, tracked: &mut Tracked, probe: &Probe, actions: &mut Vec<Action>) {
        let (Some(known), Some(sandbox)) = (self.known, &mut tracked.hold.sandbox) else {
            return;
        };
        let State::Shut(shut) = &mut sandbox.state else {
            return;
        };
        let doors = known.plan.doors();
        let mut ports = Vec::new();
        for door in doors.iter().filter(|door| door.probe == *probe) {
            if shut.ports.remove(&door.port) {
                ports.push(door.port);
            }
            shut.listens.entry(door.sidecar.clone()).or_insert(self.now);
        }
        let id = sandbox.id.clone();
        if shut.ports.is_empty() {
            let (why, shut) = (Opened::Ready, shut.clone());
            sandbox.state = State::Opening { why, shut };
            actions.push(Action::OpenAll { sandbox: id });
        } else if !ports.is_empty() {
            actions.push(Action::OpenSome { sandbox: id, ports });
        }
    }

    /// Whether all doors are to be opened now. Those of single sidecars are
    /// opened here.
    pub(super) fn why_open(
        self,
        begun: u64,
        shut: &mut Shut,
        tracked: &Tracked,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) -> Option<Opened> {
        let Some(known) = self.known else {
            return (self.now >= shut.deadline).then_some(Opened::Deadline);
        };
        let wanted = match self.mode {
            Mode::Off => false,
            Mode::Observe => shut.count_only,
            Mode::Enforce => !shut.count_only,
        };
        if !wanted || self.not_held(known).is_some() {
            return Some(Opened::NotWanted);
        }
        if known.is_ending(tracked) {
            return Some(Opened::Ending);
        }
        if known.init_lives(tracked) {
            return Some(Opened::InitContainer);
        }
        let doors = known.plan.doors();
        let strangers = shut.ports.iter().copied();
        let strangers = strangers.filter(|port| doors.iter().all(|door| door.port != *port));
        let strangers: Vec<u16> = strangers.collect();
        let (mut ended, mut silent) = (Vec::new(), Vec::new());
        for door in &doors {
            if known.ended_for_good(&door.sidecar, tracked) {
                ended.push(door.port);
            }
            let listens = shut.listens.get(&door.sidecar);
            if listens.is_some_and(|at| *at + LISTENS_AT_ALL <= self.now) {
                silent.push(door.port);
            }
        }
        for (ports, why) in [
            (strangers, Opened::NotWanted),
            (ended, Opened::SidecarEnded),
            (silent, Opened::Ready),
        ] {
            let ports: Vec<u16> = ports
                .into_iter()
                .filter(|port| shut.ports.remove(port))
                .collect();
            if shut.ports.is_empty() {
                return Some(why);
            }
            if !ports.is_empty() {
                let sandbox = id.clone();
                actions.push(Action::OpenSome { sandbox, ports });
            }
        }
        self.watch(known, begun, shut, tracked, id, actions);
        self.put_off(known, begun, shut, tracked, id, actions);
        self.at_deadline(known, shut, tracked, id, actions)
    }

    /// Has sidecars watched once they run.
    fn watch(
        self,
        known: Known<'_>,
        begun: u64,
        shut: &mut Shut,
        tracked: &Tracked,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) {
        let mut probes = BTreeSet::new();
        for door in known.plan.doors() {
            let newest = tracked.newest(&door.sidecar);
            let runs = newest
                .is_some_and(|(_id, run)| run.state == RunState::Running && run.order >= begun);
            if runs && shut.ports.contains(&door.port) && !shut.watched.contains(&door.probe) {
                probes.insert(door.probe.clone());
            }
        }
        if !probes.is_empty() {
            shut.watched.extend(probes.iter().cloned());
            actions.push(Action::Watch {
                sandbox: id.clone(),
                probes: probes.into_iter().collect(),
            });
        }
    }

    /// While no app has begun nobody waits: the deadline counts from the first
    /// one's start, however long its image takes to come.
    fn put_off(
        self,
        known: Known<'_>,
        begun: u64,
        shut: &mut Shut,
        tracked: &Tracked,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) {
        if shut.counts {
            return;
        }
        shut.counts = known.an_app_has_begun(begun, tracked);
        if shut.counts && shut.adopted {
            // What was left of the time counts on: agents may come and go.
            return;
        }
        let whole = known.deadline();
        let enough = if shut.counts {
            self.now.since(shut.from) < NEGLIGIBLE
        } else {
            self.now < half_time(shut)
        };
        if enough {
            return;
        }
        shut.from = self.now;
        shut.deadline = self.now + whole;
        actions.push(Action::Renew {
            sandbox: id.clone(),
            ports: shut.ports.iter().copied().collect(),
            timeout: whole + known.lease(),
        });
    }

    fn at_deadline(
        self,
        known: Known<'_>,
        shut: &mut Shut,
        tracked: &Tracked,
        id: &SandboxId,
        actions: &mut Vec<Action>,
    ) -> Option<Opened> {
        if self.now < shut.deadline {
            return None;
        }
        let stays = known.plan.tuning.on_deadline == OnDeadline::Closed && !shut.count_only;
        if !stays {
            return Some(Opened::Deadline);
        }
        if shut.renew.is_none() {
            let deadline = known.deadline();
            let kind = Kind::HoldStaysClosed { deadline };
            actions.push(report(tracked, Some(known.spec), None, kind, None));
        }
        if shut.renew.is_none_or(|at| at <= self.now) {
            shut.renew = Some(self.now + LEASE / 2);
            actions.push(Action::Renew {
                sandbox: id.clone(),
                ports: shut.ports.iter().copied().collect(),
                timeout: LEASE,
            });
        }
        None
    }
}

impl Holding<'_> {
    /// The kernel has opened doors before this agent did, and connections went: the deadline did it, whatever came of that
    /// until somebody looked. An app that was refused has ended by then.
    pub(super) fn by_kernel(self, shut: &Shut, tally: Tally) -> Kind {
        let lease = self.known.map_or(Duration::ZERO, Known::lease);
        let renewed = shut.renew.map(|at| at + LEASE / 2);
        let at = renewed.unwrap_or(shut.deadline + lease);
        let late = (self.now - tally.ago).since(at);
        let tally = Tally {
            longest: tally.longest.saturating_sub(late),
            ..tally
        };
        shut.opened(self.now - late, Opened::Deadline, tally, Vec::new())
    }
}

/// When to look at shut doors again that have been looked at now.
pub(super) fn next_look(shut: &Shut, now: Timestamp) -> Timestamp {
    let listens = shut.listens.values().map(|at| *at + LISTENS_AT_ALL);
    let listens = listens.filter(|at| *at > now);
    let deadline = shut.renew.unwrap_or(shut.deadline);
    let deadline = if shut.counts {
        deadline
    } else {
        half_time(shut)
    };
    listens.chain([deadline]).min().unwrap_or(deadline)
}

/// When a deadline that does not count yet is put off.
fn half_time(shut: &Shut) -> Timestamp {
    shut.from + shut.deadline.since(shut.from) / 2
}
