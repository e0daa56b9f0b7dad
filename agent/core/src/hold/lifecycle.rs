//! The phases of a pod's hold: from the sandbox that is announced or found to the release of the last port.

use std::collections::BTreeSet;

use super::{
    Failed, NotHeld, Released, Tally,
    review::{HoldReview, lease},
    state::{HeldPorts, Hold, HoldPhase, LEASE, Origin, Sandbox, TableKind},
};
use crate::{
    base::time::Timestamp,
    cni::protocol::{Outcome, Reply},
    decision::Kind,
    engine::action::Action,
    hold::ruleset::{self, Wanted},
    plan::Sidecar,
    pod::view::PodView,
    settings::mode::Mode,
};

/// Why the connections of a pod in observe mode do not wait.
const COUNTED: &str = "observe mode: its connections are counted";

enum Judgement {
    Never(NotHeld),
    Later,
    Now,
}

impl<'engine> HoldReview<'engine> {
    /// Reviews the pod's newest sandbox; gives the time of the next review.
    pub(crate) fn review(self, hold: &mut Hold, actions: &mut Vec<Action>) -> Option<Timestamp> {
        let sandbox = hold.sandbox.as_mut()?;
        self.report_found_ports(sandbox, actions);
        match &mut sandbox.phase {
            HoldPhase::Pending => {
                self.review_pending(hold, actions);
                None
            }
            // Every timeout passed before this agent started. Where no app has started, the pod is held anew.
            HoldPhase::Holding(held) if held.ports.is_empty() => {
                let conditions = self.conditions(self.view?);
                let rearm = !conditions.any_app_started(0);
                sandbox.release(Released::Deadline, rearm, actions);
                None
            }
            HoldPhase::Holding(held) => {
                let (id, first_run) = (&sandbox.id, sandbox.first_run);
                match self.why_release(first_run, held, id, actions) {
                    Some(why) => {
                        let rearm = self.holds_instead(held, first_run);
                        sandbox.release(why, rearm, actions);
                        None
                    }
                    None => Some(self.next_look(held)),
                }
            }
            HoldPhase::Released {
                by_operator: false,
                sidecar_runs,
            } => {
                if let Some(view) = self.view.filter(|view| self.rearms(view))
                    && self.conditions(view).any_sidecar_ended(sidecar_runs)
                {
                    sandbox.phase = HoldPhase::Pending;
                    sandbox.is_again = true;
                    self.review_pending(hold, actions);
                }
                None
            }
            HoldPhase::Released { .. } | HoldPhase::Arming { .. } | HoldPhase::Releasing { .. } => {
                None
            }
        }
    }

    /// Whether a table that counts is replaced by one that holds: the mode changed before an app started.
    fn holds_instead(self, held: &HeldPorts, first_run: u64) -> bool {
        let may_hold = |view| {
            self.not_held(view).is_none() && !self.conditions(view).any_app_started(first_run)
        };
        held.count_only() && self.mode == Mode::Enforce && self.view.is_some_and(may_hold)
    }

    /// Reports the ports that an earlier agent held, once the pod has a name.
    fn report_found_ports(self, sandbox: &mut Sandbox, actions: &mut Vec<Action>) {
        if self.view.is_some()
            && let Origin::Found { unreported_ports } = &mut sandbox.origin
            && let Some(ports) = unreported_ports.take()
        {
            actions.push(self.report(None, Kind::HoldAdopted { ports }));
        }
    }

    /// The table has been installed, or could not be.
    pub(crate) fn armed(
        self,
        hold: &mut Hold,
        result: Result<(), String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(sandbox) = &mut hold.sandbox else {
            return;
        };
        let HoldPhase::Arming { count_only, ports } = &sandbox.phase else {
            return;
        };
        let (count_only, ports) = (*count_only, ports.clone());
        if let Err(error) = result {
            reply(sandbox, Outcome::Failed, &error, actions);
            actions.push(self.report(None, Kind::HoldFailed(Failed::Arm(error))));
            self.close(hold, actions);
            return;
        }
        // A start that is held has not happened yet.
        let is_late = !count_only
            && self.may_be_late(sandbox)
            && sandbox.awaits_reply()
            && self.view.is_some_and(|view| {
                self.conditions(view)
                    .any_started_app(sandbox.first_run, |id| !hold.starts.was_held(id))
            });
        let time = self
            .view
            .map_or(LEASE, |view| view.plan.tuning.hold_deadline);
        let held = |table, ports| HeldPorts::new(self.now, self.now + time, table, ports);
        if is_late {
            let kind = Kind::NotHeld(NotHeld::Late);
            reply(sandbox, Outcome::NotHeld, &kind.reason(), actions);
            actions.push(self.report(None, kind));
            actions.extend(hold.starts.withdraw(self.uid, Released::NotWanted));
            sandbox.phase = HoldPhase::Holding(HeldPorts {
                is_late,
                ..held(TableKind::Holding, ports)
            });
            sandbox.release(Released::NotWanted, false, actions);
            return;
        }
        let (outcome, reason, table) = if count_only {
            (Outcome::NotHeld, COUNTED, TableKind::CountOnly)
        } else {
            (Outcome::Held, "", TableKind::Holding)
        };
        reply(sandbox, outcome, reason, actions);
        if let Some(view) = self.view.filter(|_| !count_only) {
            actions.push(self.report(None, self.armed_kind(view, &ports)));
        }
        sandbox.phase = HoldPhase::Holding(held(table, ports));
    }

    /// The ports have been released, or could not be.
    pub(crate) fn released(
        self,
        hold: &mut Hold,
        result: Result<Tally, String>,
        actions: &mut Vec<Action>,
    ) {
        let Some(sandbox) = &mut hold.sandbox else {
            return;
        };
        let failed = match (&sandbox.phase, &result) {
            // A failure was reported before: the table of an earlier worker process could not be adopted either.
            (
                HoldPhase::Pending | HoldPhase::Arming { .. } | HoldPhase::Released { .. },
                Err(_),
            ) => {
                return;
            }
            (_, Err(error)) => Some(Failed::Release(error.clone())),
            (HoldPhase::Holding(_), Ok(_)) => Some(Failed::Lost),
            (_, Ok(_)) => None,
        };
        if let Some(failed) = failed {
            actions.push(self.report(None, Kind::HoldFailed(failed)));
            self.close(hold, actions);
        } else if let (HoldPhase::Releasing { why, held, rearm }, Ok(tally)) =
            (&sandbox.phase, result)
        {
            let kind = match tally.by_kernel {
                0 => {
                    let starts = self
                        .view
                        .map(|view| self.conditions(view).would_hold_starts(self.features));
                    held.released(self.now, *why, tally, starts.unwrap_or_default())
                }
                _ => self.released_by_kernel(held, tally),
            };
            let is_pending = *rearm || *why == Released::InitContainer;
            // It had expired before any app started: that was reported at its adoption, and nothing was refused.
            let is_anew = *rearm && held.ports.is_empty();
            if !is_anew && !held.is_late {
                actions.push(self.report(None, kind));
            }
            if is_pending {
                sandbox.phase = HoldPhase::Pending;
            } else {
                self.close(hold, actions);
            }
        }
    }

    fn review_pending(self, hold: &mut Hold, actions: &mut Vec<Action>) {
        let (Some(view), Some(sandbox)) = (self.view, &mut hold.sandbox) else {
            return;
        };
        match self.judge(view, sandbox) {
            Judgement::Later => {
                let reason = "its connections wait when its init containers have ended";
                reply(sandbox, Outcome::NotHeld, reason, actions);
            }
            Judgement::Never(why) => {
                let kind = Kind::NotHeld(why);
                reply(sandbox, Outcome::NotHeld, &kind.reason(), actions);
                actions.push(self.report(None, kind));
                self.close(hold, actions);
            }
            Judgement::Now => {
                let wanted = self.wanted(view);
                sandbox.phase = HoldPhase::Arming {
                    count_only: wanted.count_only,
                    ports: wanted
                        .ports
                        .iter()
                        .map(|held_port| held_port.port)
                        .collect(),
                };
                actions.push(Action::Arm {
                    sandbox: sandbox.id.clone(),
                    wanted,
                });
            }
        }
    }

    fn judge(self, view: &'engine PodView, sandbox: &Sandbox) -> Judgement {
        let conditions = self.conditions(view);
        if self.mode == Mode::Off {
            return Judgement::Never(NotHeld::Off);
        }
        if let Some(why) = self.not_held(view) {
            return Judgement::Never(why.clone());
        }
        if let Err(lacks) = &self.features.hold {
            let lacks = lacks.clone();
            return Judgement::Never(NotHeld::Kernel { lacks });
        }
        if view.is_ending() {
            return Judgement::Never(NotHeld::Ending);
        }
        if self.may_be_late(sandbox) && conditions.any_app_started(sandbox.first_run) {
            if sandbox.is_found() || sandbox.awaits_reply() {
                return Judgement::Never(NotHeld::Late);
            }
            if sandbox.namespace_failed {
                return Judgement::Never(NotHeld::NamespaceReadLate);
            }
        }
        let were_completed = sandbox.had_table && !conditions.may_run_init_containers();
        match were_completed || conditions.init_containers_completed(sandbox.first_run) {
            true => Judgement::Now,
            false => Judgement::Later,
        }
    }

    /// Whether an app that has started is a reason against the hold.
    const fn may_be_late(self, sandbox: &Sandbox) -> bool {
        !self.by_operator && !sandbox.is_again
    }

    /// The table of a pod with all its ports held.
    pub(crate) fn wanted(self, view: &PodView) -> Wanted {
        let held_ports = view.plan.held_ports();
        let timeout = view.plan.tuning.hold_deadline + lease(view);
        let ids = |read: fn(&Sidecar) -> &Vec<u32>| {
            let sidecars = view.plan.sidecars.iter();
            let ids: BTreeSet<u32> = sidecars.flat_map(read).copied().collect();
            ids.into_iter().collect()
        };
        let dns = held_ports.iter().any(|held_port| held_port.dns);
        Wanted {
            ports: held_ports
                .iter()
                .map(|held_port| ruleset::HeldPort {
                    port: held_port.port,
                    timeout,
                })
                .collect(),
            dns: self.features.dns.filter(|_| dns),
            exempt_uids: ids(|sidecar| &sidecar.identity.users),
            exempt_gids: ids(|sidecar| &sidecar.identity.groups),
            count_only: self.mode != Mode::Enforce,
        }
    }

    fn armed_kind(self, view: &'engine PodView, ports: &BTreeSet<u16>) -> Kind {
        let held_ports = view.plan.held_ports();
        let dns = held_ports.iter().any(|held_port| held_port.dns);
        Kind::HoldArmed {
            held_ports: held_ports
                .iter()
                .filter(|held_port| ports.contains(&held_port.port))
                .map(|held_port| (held_port.sidecar.clone(), held_port.port))
                .collect(),
            deadline: view.plan.tuning.hold_deadline,
            without_dns: dns && self.features.dns.is_none(),
            omitted_ports: view.plan.omitted_ports,
            starts: self.conditions(view).starts_to_hold(self.features),
        }
    }

    /// Ends the hold: closes the namespace, unless the pod may be held again.
    fn close(self, hold: &mut Hold, actions: &mut Vec<Action>) {
        hold.by_operator = false;
        let Some(sandbox) = &mut hold.sandbox else {
            return;
        };
        let by_operator = sandbox.phase.is_released_by_operator();
        sandbox.phase = HoldPhase::Released {
            by_operator,
            sidecar_runs: BTreeSet::new(),
        };
        let may_rearm = !by_operator
            && self.features.hold.is_ok()
            && self
                .view
                .is_some_and(|view| self.rearms(view) && view.plan.not_held.is_none());
        if !may_rearm {
            actions.push(Action::Forget {
                sandbox: sandbox.id.clone(),
            });
        }
    }
}

/// The plugin announces a sandbox that the agent has found before. Replies, unless a review or the result of
/// [`Action::Arm`] will.
pub(crate) fn announced(sandbox: &mut Sandbox, actions: &mut Vec<Action>) {
    let (outcome, reason) = match &sandbox.phase {
        HoldPhase::Pending | HoldPhase::Arming { .. } => return,
        HoldPhase::Holding(held) if held.count_only() => (Outcome::NotHeld, COUNTED),
        HoldPhase::Holding(_) => (Outcome::Held, ""),
        HoldPhase::Releasing { .. } | HoldPhase::Released { .. } => {
            (Outcome::NotHeld, "its connections are released")
        }
    };
    reply(sandbox, outcome, reason, actions);
}

/// The pod's Namespace cannot be read. Replies at once: the plugin does not wait for a retry.
pub(crate) fn namespace_failed(sandbox: &mut Sandbox, actions: &mut Vec<Action>) {
    sandbox.namespace_failed = true;
    let reason = "its Namespace cannot be read; its connections wait once it has been read";
    reply(sandbox, Outcome::NotHeld, reason, actions);
}

/// Replies to the CNI plugin, at most once.
pub(super) fn reply(
    sandbox: &mut Sandbox,
    outcome: Outcome,
    reason: &str,
    actions: &mut Vec<Action>,
) {
    if let Origin::Announced {
        reply: sent @ None, ..
    } = &mut sandbox.origin
    {
        let reply = Reply {
            outcome,
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
        };
        *sent = Some(reply.clone());
        actions.push(Action::Answer {
            sandbox: sandbox.id.clone(),
            reply,
        });
    }
}
