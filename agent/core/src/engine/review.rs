//! Decides about pods, from all that is known of them now.

use std::{mem, sync::Arc, time::Duration};

use super::Engine;
use crate::{
    base::{
        id::{ContainerKey, PodUid},
        time::Timestamp,
    },
    decision::{Kind, WaitReason},
    engine::{
        action::Action,
        kubelet_poll::{self, Fetch},
    },
    plan::Plan,
    pod::{
        completion::{self, Progress},
        spec::Pod,
        state::{RunState, Tracked},
    },
    quit::{self, Finished, Need},
    settings::{mode::Mode, overrides::Place},
};

impl Engine {
    pub(super) fn review(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let uids: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in uids {
            self.review_pod(now, &uid, actions);
        }
    }

    /// Decides about one pod, and when to look at it again.
    pub(super) fn review_pod(&mut self, now: Timestamp, uid: &PodUid, actions: &mut Vec<Action>) {
        let wake = self.decide(now, uid, actions);
        let held = self.hold(now, uid, actions);
        self.agenda.set(uid, wake.into_iter().chain(held).min());
    }

    fn decide(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        if !self.walked {
            return None;
        }
        let tracked = self.pods.get_mut(uid).filter(|pod| pod.present)?;
        let mode = self.modes.quit;
        let Some(spec) = tracked.spec.clone() else {
            tracked.quit.stop();
            ask_kubelet(tracked, &mut self.fetch, now);
            say(
                tracked,
                mode,
                None,
                Kind::Waiting(WaitReason::Unlisted),
                actions,
            );
            return None;
        };
        let Some(values) = self.namespaces.get(&spec.namespace) else {
            // A pod that was listed before its cgroup came has not been asked
            // for yet; one that was asked for in vain is, again.
            if self.namespaces.ask(now, &spec.namespace, true) {
                actions.push(Action::FetchNamespace(spec.namespace.clone()));
            }
            let kind = Kind::Waiting(WaitReason::NamespaceUnknown);
            say(tracked, mode, Some(&spec), kind, actions);
            return self.namespaces.due(&spec.namespace);
        };
        let plan = match &tracked.plan {
            Some(plan) if !tracked.plan_is_old => Arc::clone(plan),
            _ => {
                let plan = Plan::of(&spec, &self.config, values, &tracked.asked);
                let plan = tracked.planned(plan);
                complain(tracked, mode, &spec, &plan, actions);
                plan
            }
        };
        if tracked.by_hand.is_some()
            && let Some(wake) = self.go_on_by_hand(now, uid, &spec, &plan, actions)
        {
            return wake;
        }
        let tracked = self.pods.get_mut(uid)?;
        if let Some(why) = &plan.not_ours {
            tracked.quit.reset();
            say(
                tracked,
                mode,
                Some(&spec),
                Kind::NotApplicable(why.clone()),
                actions,
            );
            return None;
        }
        let asks = self.ask_versions(now, uid, &plan, actions);
        let tracked = self.pods.get_mut(uid)?;
        if mode == Mode::Enforce {
            quit::prepare(tracked, &plan, actions);
        }
        completion::note_restart(tracked, &spec);
        let progress = completion::progress(tracked, &spec, &plan);
        let finished = Finished {
            spec: &spec,
            plan: &plan,
            mode,
            timings: &self.config.ladder,
            at: progress.ended_at(),
            now,
            force: false,
        };
        finished.report_asked(tracked, actions);
        match progress {
            Progress::Unfinished(why) => {
                tracked.quit.reset();
                say(tracked, mode, Some(&spec), Kind::Waiting(why), actions);
            }
            Progress::Unseen(why) => {
                tracked.quit.reset();
                ask_kubelet_later(tracked, &mut self.fetch, now);
                say(tracked, mode, Some(&spec), Kind::Waiting(why), actions);
            }
            // What is in doubt is neither begun nor taken back: it is gone on with, or not, when the kubelet has told.
            Progress::AskKubelet(why) => {
                ask_kubelet(tracked, &mut self.fetch, now);
                say(tracked, mode, Some(&spec), Kind::Waiting(why), actions);
            }
            Progress::Hidden => {
                tracked.quit.reset();
                ask_kubelet(tracked, &mut self.fetch, now);
                let runtime_class = spec.runtime_class.clone();
                let kind = Kind::RuntimeUnsupported { runtime_class };
                say(tracked, mode, Some(&spec), kind, actions);
            }
            Progress::Finished { .. } => match finished.deal(tracked, actions) {
                Need::Nothing => tracked.vain_answers = 0,
                Need::Codes => ask_kubelet(tracked, &mut self.fetch, now),
            },
        }
        tracked.quit.next_wake().into_iter().chain(asks).min()
    }

    /// Goes on with showing out what a person wants shown out; None when that is over. Otherwise when to come back.
    #[expect(clippy::option_option, reason = "over, or when to come back if at all")]
    fn go_on_by_hand(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        spec: &Pod,
        plan: &Plan,
        actions: &mut Vec<Action>,
    ) -> Option<Option<Timestamp>> {
        let tracked = self.pods.get_mut(uid)?;
        let order = tracked.by_hand.clone()?;
        completion::note_restart(tracked, spec);
        let at = match completion::progress(tracked, spec, plan) {
            Progress::Finished { at } => Some(at),
            // What was not known when the order was given.
            _ if order.force => Some(None),
            _ => None,
        };
        let Some(at) = at else {
            tracked.by_hand = None;
            return None;
        };
        let finished = Finished {
            spec,
            plan,
            mode: self.modes.quit,
            timings: &self.config.ladder,
            at,
            now,
            force: order.force,
        };
        match finished.deal_by_hand(&order, tracked, actions)? {
            Need::Nothing => tracked.vain_answers = 0,
            Need::Codes => ask_kubelet(tracked, &mut self.fetch, now),
        }
        Some(tracked.quit.next_wake())
    }

    /// Asks sidecars for their versions where the ladder may depend on them;
    /// gives when to come back to it.
    fn ask_versions(
        &mut self,
        now: Timestamp,
        uid: &PodUid,
        plan: &Plan,
        actions: &mut Vec<Action>,
    ) -> Option<Timestamp> {
        if self.modes.quit == Mode::Off {
            return None;
        }
        let tracked = self.pods.get_mut(uid)?;
        let mut next = None;
        for sidecar in &plan.sidecars {
            let Some(question) = &sidecar.question else {
                continue;
            };
            let Some((id, run)) = tracked.newest(&sidecar.name) else {
                continue;
            };
            if run.state != RunState::Running {
                continue;
            }
            let id = id.clone();
            if tracked.asked.ask(now, &question.image) {
                actions.push(Action::AskVersion {
                    key: ContainerKey {
                        pod: uid.clone(),
                        id,
                    },
                    port: question.port,
                    path: question.path.clone(),
                });
            }
            next = next
                .into_iter()
                .chain(tracked.asked.due(&question.image))
                .min();
        }
        next
    }
}

/// Says what cannot be used of a pod's annotations.
fn complain(tracked: &mut Tracked, mode: Mode, spec: &Pod, plan: &Plan, actions: &mut Vec<Action>) {
    if mode == Mode::Off {
        return;
    }
    let said = mem::replace(&mut tracked.complained, plan.bad.clone());
    for bad in plan.bad.iter().filter(|bad| !said.contains(bad)) {
        // What a Namespace says wrong is said for the pods that it is about.
        if bad.place != Place::Pod && plan.sidecars.is_empty() {
            continue;
        }
        let kind = Kind::InvalidAnnotation(bad.clone());
        actions.push(quit::report(tracked, Some(spec), None, kind, None));
    }
}

/// Records what is thought of a pod, when it changes.
fn say(
    tracked: &mut Tracked,
    mode: Mode,
    spec: Option<&Pod>,
    kind: Kind,
    actions: &mut Vec<Action>,
) {
    if mode == Mode::Off || tracked.stance.as_ref() == Some(&kind) {
        return;
    }
    tracked.stance = Some(kind.clone());
    actions.push(quit::report(tracked, spec, None, kind, None));
}

/// The kubelet starts the containers of a pod one right after the other.
const SOON: Duration = Duration::from_secs(1);

/// The same where what is missing should come by itself.
fn ask_kubelet_later(tracked: &mut Tracked, fetch: &mut Fetch, now: Timestamp) {
    if let Some(wait) = kubelet_poll::patience(tracked.vain_answers)
        && tracked.awaits_kubelet.is_none()
    {
        let due = now + wait.max(SOON);
        tracked.awaits_kubelet = Some(due);
        fetch.want(due);
    }
}

/// Has the kubelet asked for a pod's sake, ever less often while that is in
/// vain.
pub(super) fn ask_kubelet(tracked: &mut Tracked, fetch: &mut Fetch, now: Timestamp) {
    if tracked.awaits_kubelet.is_some() {
        return;
    }
    if let Some(wait) = kubelet_poll::patience(tracked.vain_answers) {
        tracked.awaits_kubelet = Some(now + wait);
        fetch.want(now + wait);
    }
}
