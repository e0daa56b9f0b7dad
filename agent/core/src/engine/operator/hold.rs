//! Orders about connections: have them wait, let them go, have the table mended.

use std::time::Duration;

use super::{Engine, Known, note};
use crate::{
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::WaitReason,
    engine::{
        action::Action,
        request::{Answer, Order, Refused, Taken},
    },
    hold::{
        NotHeld, Opened,
        conditions::Known as OfHold,
        ruleset::Wanted,
        state::{Shut, State},
    },
    pod::state::{RunState, Tracked},
    settings::mode::Mode,
};

/// How far the hold of a pod is, in short.
enum Stand {
    /// Nothing waits, and nothing is known of its namespace.
    Nothing,
    /// Its init containers run, or it is being made.
    Ahead,
    /// Doors are being shut or opened.
    Moving { opening: bool },
    /// Connections wait at these ports, or are counted only.
    Shut { ports: Vec<u16>, count_only: bool },
}

impl Engine {
    pub(super) fn hold_by_hand(
        &mut self,
        now: Timestamp,
        order: &Order,
        known: &Known,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let (spec, plan) = known;
        let mode = self.modes.hold;
        if let Err(refused) = self.may_hold(&order.pod, known) {
            return Answer::Refused(refused);
        }
        let (uid, tracked) = (&order.pod, self.pod(&order.pod));
        let opted_out = plan.not_held.is_some();
        let of_hold = OfHold { spec, plan };
        let mut despite = Vec::new();
        if mode != Mode::Enforce {
            despite.push(format!("the node's mode is {mode}"));
        }
        if let Some(why) = &plan.not_held {
            despite.push(crate::decision::Kind::NotHeld(why.clone()).reason());
        }
        let by_itself = mode == Mode::Enforce && !opted_out || tracked.hold.by_hand;
        let doors = plan.doors();
        let ports: Vec<u16> = doors.iter().map(|door| door.port).collect();
        let until = format!(
            "until {} ready, for at most {:?}",
            ready_ones(doors.iter().map(|door| door.sidecar.as_str())),
            plan.tuning.hold_deadline
        );
        let begun = of_hold.an_app_has_begun(0, tracked);
        let after_the_fact = if begun {
            "; what its apps have connected to before stays as it is, and a sidecar that is ready lets them go at once"
        } else {
            ""
        };
        let says = match stand(tracked) {
            Stand::Moving { .. } => return Answer::Refused(Refused::Busy),
            Stand::Shut {
                ports,
                count_only: false,
            } => {
                let ports = numbers(&ports);
                return Answer::Nothing(format!("connections to {ports} wait already"));
            }
            Stand::Ahead if by_itself => {
                return Answer::Nothing(format!(
                    "connections wait anyway, from the end of its init containers on {until}"
                ));
            }
            Stand::Ahead => format!(
                "connections to {} wait from the end of its init containers on {until}",
                numbers(&ports)
            ),
            Stand::Nothing | Stand::Shut { .. } => format!(
                "new connections to {} wait from now on {until}{after_the_fact}",
                numbers(&ports)
            ),
        };
        let taken = Taken {
            says,
            despite,
            ports,
            ..Taken::default()
        };
        if order.dry_run {
            return Answer::Taken(taken);
        }
        note(tracked, spec, order, &taken, actions);
        if let Stand::Nothing = stand(tracked) {
            self.look_again(uid, actions);
        }
        let tracked = self.pod(uid);
        tracked.hold.by_hand = true;
        if let Some(sandbox) = &mut tracked.hold.sandbox {
            sandbox.released = false;
            if let State::Shut(shut) = &sandbox.state {
                // What only counts is undone first.
                let (why, shut) = (Opened::NotWanted, shut.clone());
                sandbox.again = true;
                sandbox.state = State::Opening { why, shut };
                let sandbox = sandbox.id.clone();
                actions.push(Action::OpenAll { sandbox });
            }
        }
        self.review_pod(now, uid, actions);
        Answer::Taken(taken)
    }

    fn may_hold(&self, uid: &PodUid, (spec, plan): &Known) -> Result<(), Refused> {
        let unknown = || Refused::Unknown(WaitReason::Unlisted);
        let features = self.features.as_ref().ok_or_else(unknown)?;
        let tracked = self.pods.get(uid).ok_or_else(unknown)?;
        let not_held = plan.not_held.as_ref();
        if let Some(why) = not_held.filter(|why| **why != NotHeld::OptedOut) {
            return Err(Refused::NotHeld(why.clone()));
        }
        if let Err(lacks) = &features.hold {
            let lacks = lacks.clone();
            return Err(Refused::NotHeld(NotHeld::Kernel { lacks }));
        }
        let known = OfHold { spec, plan };
        if known.is_ending(tracked) {
            return Err(Refused::NotHeld(NotHeld::Ending));
        }
        Ok(())
    }

    pub(super) fn release_by_hand(
        &mut self,
        now: Timestamp,
        order: &Order,
        (spec, _plan): &Known,
        actions: &mut Vec<Action>,
    ) -> Answer {
        let wanted = self.is_wanted(now, &order.pod);
        let tracked = self.pod(&order.pod);
        let starts = match tracked.hold.starts.held() {
            0 => String::new(),
            1 => ", and the start that waits goes".to_owned(),
            many => format!(", and the {many} starts that wait go"),
        };
        let (ports, says) = match stand(tracked) {
            Stand::Moving { opening: false } => return Answer::Refused(Refused::Busy),
            Stand::Moving { opening: true } => {
                return Answer::Nothing("its doors are being opened already".to_owned());
            }
            Stand::Shut {
                count_only: true, ..
            } => return Answer::Nothing("observe mode: nothing of it waits".to_owned()),
            Stand::Shut { ports, .. } => {
                let says = format!("connections to {} go now{starts}", numbers(&ports));
                (ports, says)
            }
            Stand::Ahead if wanted => {
                let says = format!("its connections will not wait{starts}");
                (Vec::new(), says)
            }
            Stand::Nothing if tracked.hold.by_hand => {
                (Vec::new(), "its connections will not wait".to_owned())
            }
            Stand::Ahead | Stand::Nothing => {
                return Answer::Nothing("nothing of it waits".to_owned());
            }
        };
        let taken = Taken {
            says,
            ports,
            ..Taken::default()
        };
        if order.dry_run {
            return Answer::Taken(taken);
        }
        note(tracked, spec, order, &taken, actions);
        self.with_holding(now, &order.pod, |holding, tracked| {
            holding.release(tracked, actions);
        });
        self.review_pod(now, &order.pod, actions);
        Answer::Taken(taken)
    }

    pub(super) fn mend_by_hand(
        &mut self,
        now: Timestamp,
        order: &Order,
        (spec, plan): &Known,
        actions: &mut Vec<Action>,
    ) -> Answer {
        if spec.host_network {
            return Answer::Refused(Refused::NotHeld(NotHeld::HostNetwork));
        }
        let mended = self.table(now, &order.pod);
        let tracked = self.pod(&order.pod);
        let says = match (stand(tracked), &mended) {
            (Stand::Shut { ports, .. }, Some(_wanted)) => {
                format!("the table is made anew; connections to {} wait on", numbers(&ports))
            }
            (Stand::Nothing, _) => "no table is wanted: one that is there is taken over until the sidecars are ready, or deleted".to_owned(),
            (Stand::Ahead, _) => {
                return Answer::Nothing("its table is made when its init containers have ended".to_owned());
            }
            (Stand::Moving { .. } | Stand::Shut { .. }, _) => return Answer::Refused(Refused::Busy),
        };
        let taken = Taken {
            says,
            ports: plan.doors().iter().map(|door| door.port).collect(),
            ..Taken::default()
        };
        if order.dry_run {
            return Answer::Taken(taken);
        }
        note(tracked, spec, order, &taken, actions);
        let sandbox = tracked.hold.sandbox.as_ref();
        match (sandbox.map(|sandbox| sandbox.id.clone()), mended) {
            (Some(sandbox), Some(wanted)) => actions.push(Action::Mend { sandbox, wanted }),
            _ => self.look_again(&order.pod, actions),
        }
        Answer::Taken(taken)
    }

    /// Has the namespace of a pod opened by a container that runs; whether there is one.
    fn look_again(&mut self, uid: &PodUid, actions: &mut Vec<Action>) {
        self.forget_sandbox(uid, actions);
        let tracked = self.pod(uid);
        let running = tracked
            .runs()
            .filter(|(_id, run)| run.state == RunState::Running);
        let first = running.min_by_key(|(_id, run)| run.order);
        if let Some(id) = first.map(|(id, _run)| id.clone()) {
            tracked.hold.opening = true;
            let pod = uid.clone();
            actions.push(Action::Look {
                key: ContainerKey { pod, id },
            });
        }
    }

    /// Whether the hold that was ordered a moment ago came about, or will; when everything has been done that the engine
    /// asked for.
    pub fn hold_came_about(&mut self, uid: &PodUid) -> bool {
        let Some(tracked) = self.pods.get_mut(uid) else {
            return false;
        };
        if std::mem::take(&mut tracked.hold.opening) {
            tracked.hold.by_hand = false;
        }
        tracked.hold.by_hand
    }

    /// The table that is to be in a pod's network namespace at this moment, if one is.
    pub fn table(&mut self, now: Timestamp, uid: &PodUid) -> Option<Wanted> {
        self.with_holding(now, uid, |holding, tracked| {
            let sandbox = tracked.hold.sandbox.as_ref()?;
            let State::Shut(shut) = &sandbox.state else {
                return None;
            };
            let mut wanted = holding.wanted(holding.known?);
            wanted.count_only = shut.count_only;
            wanted.ports.retain(|door| shut.ports.contains(&door.port));
            for door in &mut wanted.ports {
                door.timeout = left(shut, door.timeout, now);
            }
            Some(wanted)
        })
        .flatten()
    }

    /// Whether connections of a pod are to wait.
    fn is_wanted(&mut self, now: Timestamp, uid: &PodUid) -> bool {
        self.with_holding(now, uid, |holding, _tracked| {
            let known = holding.known;
            let not_held = known.is_none_or(|known| holding.not_held(known).is_some());
            holding.mode == Mode::Enforce && !not_held && holding.features.hold.is_ok()
        })
        .unwrap_or(false)
    }
}

/// How long the kernel has to keep a door shut yet that was shut for `whole`.
fn left(shut: &Shut, whole: Duration, now: Timestamp) -> Duration {
    let over = now.since(shut.from);
    whole.saturating_sub(over).max(Duration::from_secs(1))
}

fn stand(tracked: &Tracked) -> Stand {
    let sandbox = tracked.hold.sandbox.as_ref();
    match sandbox.map(|sandbox| &sandbox.state) {
        None if tracked.runs().next().is_none() => Stand::Ahead,
        None | Some(State::Over { .. }) => Stand::Nothing,
        Some(State::Pending) => Stand::Ahead,
        Some(State::Arming { .. }) => Stand::Moving { opening: false },
        Some(State::Opening { .. }) => Stand::Moving { opening: true },
        Some(State::Shut(shut)) => Stand::Shut {
            ports: shut.ports.iter().copied().collect(),
            count_only: shut.count_only,
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
