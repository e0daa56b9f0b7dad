//! What becomes of a pod's connections, from all that is known of it now.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Failed, Features, NotHeld, Opened, Tally,
    conditions::{Known, sidecar_ended},
    ports::next_look,
    state::{Sandbox, Shut, State},
};
use crate::{
    base::time::Timestamp,
    cni::protocol::{Outcome, Reply},
    decision::Kind,
    engine::action::Action,
    hold::ruleset::{self, Wanted},
    plan::Sidecar,
    pod::state::Tracked,
    quit::report,
    settings::mode::Mode,
};

/// How long the kernel keeps doors shut beyond what it is told next, where the
/// user wants them shut until the sidecar is ready: when the agent is dead they
/// open by then.
pub(super) const LEASE: Duration = Duration::from_secs(20);

/// A pod, and what counts for its connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding<'engine> {
    /// None until the kubelet and the API server have told.
    pub(crate) known: Option<Known<'engine>>,
    pub(crate) mode: Mode,
    /// A person wants connections to wait.
    pub(crate) by_hand: bool,
    pub(crate) features: &'engine Features,
    pub(crate) now: Timestamp,
}

enum Judgement {
    Never(NotHeld),
    Later,
    Now,
}

impl<'engine> Holding<'engine> {
    /// Why no connection waits in the pod, where that is so.
    pub(crate) fn not_held(self, known: Known<'engine>) -> Option<&'engine NotHeld> {
        let why = known.plan.not_held.as_ref();
        why.filter(|why| !(self.by_hand && **why == NotHeld::OptedOut))
    }

    /// Goes on with the pod's newest sandbox; says when to come back.
    pub(crate) fn deal(
        self,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let wake = self.deal_with_doors(tracked, actions);
        let sandbox = tracked.hold.sandbox.take();
        self.starts(sandbox.as_ref(), tracked, actions);
        tracked.hold.sandbox = sandbox;
        wake
    }

    fn deal_with_doors(
        self,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        let mut sandbox = tracked.hold.sandbox.take()?;
        // When the pod has a name.
        if let Some(known) = self.known
            && let Some(ports) = sandbox.unsaid.take()
        {
            let kind = Kind::HoldAdopted { ports };
            actions.push(report(tracked, Some(known.spec), None, kind, None));
        }
        let wake = match &mut sandbox.state {
            State::Pending => {
                self.judge_pending(&mut sandbox, tracked, actions);
                None
            }
            State::Shut(shut) => {
                let id = &sandbox.id;
                let begun = sandbox.begun;
                let shut = &mut *shut;
                match self.why_open(begun, shut, tracked, id, actions) {
                    Some(why) => {
                        let (sandbox_id, shut) = (id.clone(), shut.clone());
                        sandbox.state = State::Opening { why, shut };
                        actions.push(Action::OpenAll {
                            sandbox: sandbox_id,
                        });
                        None
                    }
                    None => Some(next_look(shut, self.now)),
                }
            }
            State::Over { runs } => {
                let again = self.known.filter(|known| self.holds_again(*known));
                let again = again.filter(|_| !sandbox.released);
                if let Some(known) = again
                    && sidecar_ended(known, runs, tracked)
                {
                    sandbox.state = State::Pending;
                    self.judge_pending(&mut sandbox, tracked, actions);
                }
                None
            }
            State::Arming { .. } | State::Opening { .. } => None,
        };
        tracked.hold.sandbox = Some(sandbox);
        wake
    }

    /// The doors have been shut, or could not be.
    pub(crate) fn armed(
        self,
        tracked: &mut Tracked,
        result: Result<(), String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(mut sandbox) = tracked.hold.sandbox.take() else {
            return;
        };
        let spec = self.known.map(|known| known.spec);
        if let State::Arming { count_only, ports } = &sandbox.state {
            let (count_only, ports) = (*count_only, ports.clone());
            match result {
                Ok(()) => {
                    let outcome = if count_only {
                        Outcome::Open
                    } else {
                        Outcome::Held
                    };
                    let reason = count_only.then_some("observe mode: its connections are counted");
                    answer(&mut sandbox, outcome, reason.unwrap_or_default(), actions);
                    let deadline = self.known.map_or(LEASE, Known::deadline);
                    if let Some(known) = self.known.filter(|_| !count_only) {
                        let kind = self.armed_kind(known, &ports);
                        actions.push(report(tracked, spec, None, kind, None));
                    }
                    sandbox.state =
                        State::Shut(Shut::new(self.now, self.now + deadline, count_only, ports));
                }
                Err(error) => {
                    answer(&mut sandbox, Outcome::Failed, &error, actions);
                    let kind = Kind::HoldFailed(Failed::Arm(error));
                    actions.push(report(tracked, spec, None, kind, None));
                    sandbox.state = State::over();
                    tracked.hold.by_hand = false;
                    self.close(&sandbox, actions);
                }
            }
        }
        tracked.hold.sandbox = Some(sandbox);
    }

    /// What an opening that is over leaves.
    pub(crate) fn opened(
        self,
        tracked: &mut Tracked,
        result: Result<Tally, String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(mut sandbox) = tracked.hold.sandbox.take() else {
            return;
        };
        let failed = match &result {
            Err(error) => Some(Failed::Open(error.clone())),
            Ok(_) if matches!(sandbox.state, State::Shut(_)) => Some(Failed::Gate),
            Ok(_) => None,
        };
        if let Some(failed) = failed {
            let spec = self.known.map(|known| known.spec);
            let kind = Kind::HoldFailed(failed);
            actions.push(report(tracked, spec, None, kind, None));
            sandbox.state = State::over();
            tracked.hold.by_hand = false;
            self.close(&sandbox, actions);
        } else if let (State::Opening { why, shut }, Ok(tally)) = (&sandbox.state, result) {
            let why = *why;
            let starts = self.would_hold_starts(tracked);
            let kind = match tally.by_kernel {
                0 => shut.opened(self.now, why, tally, starts),
                _ => self.by_kernel(shut, tally),
            };
            let spec = self.known.map(|known| known.spec);
            actions.push(report(tracked, spec, None, kind, None));
            if std::mem::take(&mut sandbox.again) || why == Opened::InitContainer {
                sandbox.state = State::Pending;
            } else {
                sandbox.state = State::over();
                tracked.hold.by_hand = false;
                self.close(&sandbox, actions);
            }
        }
        tracked.hold.sandbox = Some(sandbox);
    }

    pub(crate) fn judge_pending(
        self,
        sandbox: &mut Sandbox,
        tracked: &mut Tracked,
        actions: &mut Vec<Action>,
    ) {
        let Some(known) = self.known else {
            return;
        };
        match self.judge(known, sandbox, tracked) {
            Judgement::Later => {
                let reason = "its connections wait when its init containers have ended";
                answer(sandbox, Outcome::Open, reason, actions);
            }
            Judgement::Never(why) => {
                let kind = Kind::NotHeld(why);
                answer(sandbox, Outcome::Open, &kind.reason(), actions);
                actions.push(report(tracked, Some(known.spec), None, kind, None));
                sandbox.state = State::over();
                tracked.hold.by_hand = false;
                self.close(sandbox, actions);
            }
            Judgement::Now => {
                let wanted = self.wanted(known);
                sandbox.state = State::Arming {
                    count_only: wanted.count_only,
                    ports: wanted.ports.iter().map(|door| door.port).collect(),
                };
                actions.push(Action::Arm {
                    sandbox: sandbox.id.clone(),
                    wanted,
                });
            }
        }
    }

    fn judge(self, known: Known<'engine>, sandbox: &Sandbox, tracked: &Tracked) -> Judgement {
        if self.mode == Mode::Off {
            return Judgement::Never(NotHeld::Off);
        }
        if let Some(why) = self.not_held(known) {
            return Judgement::Never(why.clone());
        }
        if let Err(lacks) = &self.features.hold {
            let lacks = lacks.clone();
            return Judgement::Never(NotHeld::Kernel { lacks });
        }
        if known.is_ending(tracked) {
            return Judgement::Never(NotHeld::Ending);
        }
        if sandbox.found && !self.by_hand && known.app_has_begun(tracked) {
            return Judgement::Never(NotHeld::Late);
        }
        if !known.inits_are_over(sandbox.begun, tracked) {
            return Judgement::Later;
        }
        Judgement::Now
    }

    /// The table of a pod whose doors are all shut.
    pub(crate) fn wanted(self, known: Known<'_>) -> Wanted {
        let doors = known.plan.doors();
        let count_only = self.mode != Mode::Enforce;
        let timeout = known.deadline() + known.lease();
        let ids = |read: fn(&Sidecar) -> &Vec<u32>| {
            let sidecars = known.plan.sidecars.iter();
            let ids: BTreeSet<u32> = sidecars.flat_map(read).copied().collect();
            ids.into_iter().collect()
        };
        let dns = doors.iter().any(|door| door.dns);
        Wanted {
            ports: doors
                .iter()
                .map(|door| ruleset::Door {
                    port: door.port,
                    timeout,
                })
                .collect(),
            dns: self.features.dns.filter(|_| dns),
            exempt_uids: ids(|sidecar| &sidecar.identity.users),
            exempt_gids: ids(|sidecar| &sidecar.identity.groups),
            count_only,
        }
    }

    fn armed_kind(self, known: Known<'_>, ports: &BTreeSet<u16>) -> Kind {
        let doors = known.plan.doors();
        let dns = doors.iter().any(|door| door.dns);
        let doors = doors.iter().filter(|door| ports.contains(&door.port));
        Kind::HoldArmed {
            doors: doors
                .map(|door| (door.sidecar.clone(), door.port))
                .collect(),
            deadline: known.deadline(),
            without_dns: dns && self.features.dns.is_none(),
            starts: self.starts_to_be_held(known),
        }
    }

    fn holds_again(self, known: Known<'_>) -> bool {
        self.mode == Mode::Enforce && known.plan.tuning.hold_again
    }

    /// Closes what keeps the namespace open, unless it is needed again.
    fn close(self, sandbox: &Sandbox, actions: &mut Vec<Action>) {
        let again = self.known.filter(|_| !sandbox.released);
        let again = again.is_some_and(|known| {
            self.holds_again(known) && known.plan.not_held.is_none() && self.features.hold.is_ok()
        });
        if !again {
            actions.push(Action::Forget {
                sandbox: sandbox.id.clone(),
            });
        }
    }
}

/// Tells the plugin, once.
pub(super) fn answer(
    sandbox: &mut Sandbox,
    outcome: Outcome,
    reason: &str,
    actions: &mut Vec<Action>,
) {
    if sandbox.reply.is_some() {
        return;
    }
    let reply = Reply {
        outcome,
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
    };
    sandbox.reply = Some(reply.clone());
    if !sandbox.found {
        let sandbox = sandbox.id.clone();
        actions.push(Action::Answer { sandbox, reply });
    }
}
