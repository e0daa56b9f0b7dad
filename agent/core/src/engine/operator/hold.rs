//! Requests about holds: hold, release, repair the table.

use std::time::Duration;

use super::{Engine, accepted};
use crate::{
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::{Kind, WaitReason},
    engine::{
        action::Action,
        request::{Answer, OperatorRequest, Refused, Taken},
    },
    hold::{
        NotHeld, Released,
        conditions::Conditions,
        manual,
        ruleset::Wanted,
        state::{HeldPorts, HoldPhase},
    },
    pod::{
        state::{Tracked, runs::RunState},
        view::PodView,
    },
    settings::mode::Mode,
};

/// The phase of a pod's hold, for an operator.
enum HoldStatus {
    /// No connection is held, and the pod's namespace is not open.
    Idle,
    /// The hold begins after the init containers, or is not decided yet.
    Pending,
    /// The table is being installed or removed.
    Transition { releasing: bool },
    /// Connections to these ports are held, or only counted.
    Holding { ports: Vec<u16>, count_only: bool },
}

impl Engine {
    pub(super) fn operator_hold(
        &mut self,
        request: &OperatorRequest,
        view: &PodView,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let mode = view.modes.hold;
        let plan = &view.plan;
        if let Err(refused) = self.may_hold(view) {
            return Answer::Refused(refused);
        }
        let (uid, tracked) = (&request.pod, self.pod_mut(&request.pod));
        let mut despite = Vec::new();
        if mode != Mode::Enforce {
            despite.push(format!("the node's mode is {mode}"));
        }
        if let Some(why) = &plan.not_held {
            despite.push(Kind::NotHeld(why.clone()).reason());
        }
        let status = hold_status(tracked);
        let held_ports = plan.held_ports();
        let ports: Vec<u16> = held_ports.iter().map(|held_port| held_port.port).collect();
        let until = format!(
            "until {} ready, for at most {:?}",
            ready_ones(
                held_ports
                    .iter()
                    .map(|held_port| held_port.sidecar.as_str())
            ),
            plan.tuning.hold_deadline
        );
        let message = match &status {
            HoldStatus::Transition { .. } => return Answer::Refused(Refused::Busy),
            HoldStatus::Holding {
                ports,
                count_only: false,
            } => {
                let ports = numbers(ports);
                return Answer::Nothing(format!("connections to {ports} wait already"));
            }
            HoldStatus::Pending
                if mode == Mode::Enforce && plan.not_held.is_none() || tracked.hold.by_operator =>
            {
                return Answer::Nothing(format!(
                    "connections wait anyway, from the end of its init containers on {until}"
                ));
            }
            HoldStatus::Pending => format!(
                "connections to {} wait from the end of its init containers on {until}",
                numbers(&ports)
            ),
            HoldStatus::Idle | HoldStatus::Holding { .. } => {
                let runs = &tracked.runs;
                let late = match (Conditions { view, runs }).any_app_started(0) {
                    true => {
                        "; existing connections are not changed, and connections are released at once if the sidecar is ready"
                    }
                    false => "",
                };
                let ports = numbers(&ports);
                format!("new connections to {ports} wait from now on {until}{late}")
            }
        };
        let taken = Taken {
            message,
            despite,
            ports,
            ..Taken::default()
        };
        actions.push(accepted(view, request, &taken));
        if let HoldStatus::Idle = status {
            self.open_namespace(uid, actions);
        }
        let hold = &mut self.pod_mut(uid).hold;
        hold.by_operator = true;
        if let Some(sandbox) = &mut hold.sandbox {
            // A table that only counts is removed first.
            sandbox.release(Released::NotWanted, true, actions);
        }
        self.review_pod(view.now, uid, actions);
        Answer::Taken(taken)
    }

    fn may_hold(&self, view: &PodView) -> Result<(), Refused> {
        let features = self.features.as_ref();
        let features = features.ok_or(Refused::Unknown(WaitReason::Unlisted))?;
        let not_held = view.plan.not_held.as_ref();
        if let Some(why) = not_held.filter(|why| **why != NotHeld::OptedOut) {
            return Err(Refused::NotHeld(why.clone()));
        }
        if let Err(lacks) = &features.hold {
            let lacks = lacks.clone();
            return Err(Refused::NotHeld(NotHeld::Kernel { lacks }));
        }
        if view.is_ending() {
            return Err(Refused::NotHeld(NotHeld::Ending));
        }
        Ok(())
    }

    pub(super) fn operator_release(
        &mut self,
        request: &OperatorRequest,
        view: &PodView,
        actions: &mut Vec<Action>,
    ) -> Answer {
        if let Some(answer) = self.operator_release_stops(request, view, actions) {
            return answer;
        }
        let wanted = self.is_hold_wanted(view);
        let hold = &self.pod_mut(&request.pod).hold;
        let starts = match hold.starts.held() {
            0 => None,
            1 => Some("1 held start".to_owned()),
            many => Some(format!("{many} held starts")),
        };
        let by_operator = hold.by_operator;
        let (ports, message) = match hold_status(self.pod_mut(&request.pod)) {
            HoldStatus::Transition { releasing: false } => return Answer::Refused(Refused::Busy),
            HoldStatus::Transition { releasing: true } => {
                return Answer::Nothing("its ports are being released already".to_owned());
            }
            HoldStatus::Holding {
                count_only: true, ..
            } => return Answer::Nothing("nothing is held in observe mode".to_owned()),
            HoldStatus::Holding { ports, .. } => {
                let starts = starts.map_or_else(String::new, |starts| format!(", and {starts}"));
                let message = format!("releases connections to {}{starts}", numbers(&ports));
                (ports, message)
            }
            HoldStatus::Pending if wanted => {
                let starts = starts.map(|starts| format!("; releases {starts}"));
                let message =
                    "connections will not be held".to_owned() + &starts.unwrap_or_default();
                (Vec::new(), message)
            }
            HoldStatus::Idle if by_operator => {
                (Vec::new(), "connections will not be held".to_owned())
            }
            HoldStatus::Pending | HoldStatus::Idle => {
                return Answer::Nothing("nothing is held".to_owned());
            }
        };
        let taken = Taken {
            message,
            ports,
            ..Taken::default()
        };
        actions.push(accepted(view, request, &taken));
        manual::release(&mut self.pod_mut(&request.pod).hold, actions);
        self.review_pod(view.now, &request.pod, actions);
        Answer::Taken(taken)
    }

    pub(super) fn operator_repair(
        &mut self,
        request: &OperatorRequest,
        view: &PodView,
        actions: &mut Vec<Action>,
    ) -> Answer {
        if view.spec.host_network {
            return Answer::Refused(Refused::NotHeld(NotHeld::HostNetwork));
        }
        let wanted = self.table(view.now, &request.pod);
        let tracked = self.pod_mut(&request.pod);
        let message = match (hold_status(tracked), &wanted) {
            (HoldStatus::Holding { ports, .. }, Some(_wanted)) => {
                format!("installs the table again; connections to {} stay held", numbers(&ports))
            }
            (HoldStatus::Idle, _) => "no table is expected: an existing one is adopted until the sidecars are ready, or removed".to_owned(),
            (HoldStatus::Pending, _) => {
                return Answer::Nothing("the table is installed when the init containers have ended".to_owned());
            }
            (HoldStatus::Transition { .. } | HoldStatus::Holding { .. }, _) => {
                return Answer::Refused(Refused::Busy);
            }
        };
        let taken = Taken {
            message,
            ports: view
                .plan
                .held_ports()
                .iter()
                .map(|held_port| held_port.port)
                .collect(),
            ..Taken::default()
        };
        actions.push(accepted(view, request, &taken));
        let sandbox = tracked.hold.sandbox.as_ref();
        match (sandbox.map(|sandbox| sandbox.id.clone()), wanted) {
            (Some(sandbox), Some(wanted)) => actions.push(Action::Repair { sandbox, wanted }),
            _ => self.open_namespace(&request.pod, actions),
        }
        Answer::Taken(taken)
    }

    /// Opens the namespace of a pod through its first container that runs.
    fn open_namespace(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        self.forget_sandbox(uid, actions);
        let tracked = self.pod_mut(uid);
        let first = tracked
            .runs
            .iter()
            .filter(|(_id, run)| run.state == RunState::Running)
            .min_by_key(|(_id, run)| run.order);
        if let Some(id) = first.map(|(id, _run)| id.clone()) {
            tracked.hold.opens_namespace = true;
            let pod = uid.clone();
            actions.push(Action::Look {
                key: ContainerKey { pod, id },
            });
        } else {
            // That of the next container is.
            tracked.hold.inspected = false;
        }
    }

    /// Whether the hold that an operator requested exists, or will; None while its namespace is being opened or its
    /// table is being installed.
    pub fn hold_came_about(&self, uid: &PodUid) -> Option<bool> {
        let Some(tracked) = self.pods.get(uid) else {
            return Some(false);
        };
        let hold = &tracked.hold;
        let sandbox = hold.sandbox.as_ref();
        let is_pending = hold.opens_namespace
            || sandbox.is_some_and(|sandbox| matches!(sandbox.phase, HoldPhase::Arming { .. }));
        (!is_pending).then_some(hold.by_operator)
    }

    /// The table that the pod's network namespace should have now, if any.
    pub fn table(&mut self, now: Timestamp, uid: &PodUid) -> Option<Wanted> {
        let view = self.current_view(now, uid)?;
        let (review, hold) = self.hold_review(now, uid, Some(&view))?;
        let HoldPhase::Holding(held) = &hold.sandbox.as_ref()?.phase else {
            return None;
        };
        let mut wanted = review.wanted(&view);
        wanted.count_only = held.count_only();
        wanted
            .ports
            .retain(|held_port| held.ports.contains(&held_port.port));
        for held_port in &mut wanted.ports {
            held_port.timeout = left(held, held_port.timeout, now);
        }
        Some(wanted)
    }

    fn is_hold_wanted(&mut self, view: &PodView) -> bool {
        let review = self.hold_review(view.now, &view.uid, Some(view));
        review.is_some_and(|(review, _hold)| {
            review.mode == Mode::Enforce
                && review.not_held(view).is_none()
                && review.features.hold.is_ok()
        })
    }
}

/// How long the kernel still holds a port with this timeout.
fn left(held: &HeldPorts, timeout: Duration, now: Timestamp) -> Duration {
    let elapsed = now.since(held.from);
    timeout.saturating_sub(elapsed).max(Duration::from_secs(1))
}

fn hold_status(tracked: &Tracked) -> HoldStatus {
    let sandbox = tracked.hold.sandbox.as_ref();
    match sandbox.map(|sandbox| &sandbox.phase) {
        None if tracked.runs.iter().next().is_none() => HoldStatus::Pending,
        None | Some(HoldPhase::Released { .. }) => HoldStatus::Idle,
        Some(HoldPhase::Pending) => HoldStatus::Pending,
        Some(HoldPhase::Arming { .. }) => HoldStatus::Transition { releasing: false },
        Some(HoldPhase::Releasing { .. }) => HoldStatus::Transition { releasing: true },
        Some(HoldPhase::Holding(held)) => HoldStatus::Holding {
            ports: held.ports.iter().copied().collect(),
            count_only: held.count_only(),
        },
    }
}

fn numbers(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(|port| format!(":{port}")).collect();
    ports.join(", ")
}

fn ready_ones<'name>(names: impl Iterator<Item = &'name str>) -> String {
    let mut once: Vec<&str> = names.collect();
    once.dedup();
    match once.as_slice() {
        [one] => format!("{one} is"),
        many => format!("{} are", many.join(", ")),
    }
}
