//! The engine: events in, actions out.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    action::Action,
    agenda::Agenda,
    decision::Kind,
    event::{ContainerKey, Event, Outcome},
    fetch::{self, Fetch},
    finish::{finished, prepare, report, sidecars},
    id::{ContainerId, PodUid},
    lifecycle::{self, Progress},
    mode::{Mode, Modes},
    pod::Pod,
    quit::Judgement,
    time::Timestamp,
    tracked::Tracked,
};

/// When lists are asked for after the start, besides the first: its statuses
/// are older than the start by as much as the kubelet's watch lags behind.
const AFTER_START_MS: [u64; 2] = [700, 2500];

/// All that usher knows of a node, and what follows from it.
#[derive(Debug, Default)]
pub struct Engine {
    modes: Modes,
    walked: bool,
    now: Timestamp,
    fetch: Fetch,
    agenda: Agenda,
    pods: BTreeMap<PodUid, Tracked>,
}

/// How many pods are known, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Pods with a cgroup.
    pub pods: usize,
    /// Those of them that are finished.
    pub finished: usize,
}

impl Engine {
    /// Takes an event and says what is to be done. `now` must not be before
    /// any earlier one.
    pub fn step(&mut self, now: Timestamp, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.now = now;
        match event {
            Event::Modes(modes) => {
                self.modes = modes;
                self.fetch.want(now);
                self.review(now, &mut actions);
            }
            Event::Pods(pods) => {
                self.fetch.answered(now);
                self.listed(pods);
                self.review(now, &mut actions);
            }
            Event::PodsUnavailable => self.fetch.failed(now),
            Event::Walked => {
                self.walked = true;
                self.fetch.want(now);
                for ms in AFTER_START_MS {
                    self.fetch.want(now + Duration::from_millis(ms));
                }
                self.review(now, &mut actions);
            }
            Event::Timer => {}
            Event::PodGone(uid) => self.pod_gone(&uid),
            Event::PodAppeared(uid) => {
                let pod = self.pod(&uid);
                pod.present = true;
                self.review_pod(now, &uid, &mut actions);
            }
            Event::Attempted { key, outcome } => {
                self.attempted(now, &key, outcome, &mut actions);
                self.review_pod(now, &key.pod, &mut actions);
            }
            Event::ContainerAppeared(key) => {
                self.kernel(now, &key, Tracked::appeared, &mut actions);
            }
            Event::ContainerStarted { key, name } => {
                self.kernel(now, &key, |pod, id| pod.started(id, name), &mut actions);
            }
            Event::ContainerNamed { key, name } => {
                self.kernel(now, &key, |pod, id| pod.named(id, name), &mut actions);
            }
            Event::ContainerExited(key) | Event::ContainerGone(key) => {
                self.kernel(now, &key, |pod, id| pod.exited(id, now), &mut actions);
            }
            Event::ContainerStatus { key, status } => {
                let ended = |pod: &mut Tracked, id: &_| pod.ended_with(id, now, status);
                self.kernel(now, &key, ended, &mut actions);
            }
        }
        for uid in self.agenda.due(now) {
            self.review_pod(now, &uid, &mut actions);
        }
        if self.fetch.due().is_some_and(|due| due <= now) {
            self.fetch.start(now);
            actions.push(Action::FetchPods);
        }
        actions
    }

    /// When [`Event::Timer`] is to be delivered, at the earliest and if no
    /// other event changes it before; None while there is nothing to wait for.
    pub fn next_wake(&self) -> Option<Timestamp> {
        // What was due at the last step has been dealt with in it.
        let fetch = self.fetch.due().filter(|due| *due > self.now);
        self.agenda.next(self.now).into_iter().chain(fetch).min()
    }

    /// Counts what is known.
    pub fn census(&self) -> Census {
        Census {
            pods: self.pods.values().filter(|pod| pod.present).count(),
            finished: self
                .pods
                .values()
                .filter(|pod| pod.present && pod.quit.said.finished)
                .count(),
        }
    }

    fn pod(&mut self, uid: &PodUid) -> &mut Tracked {
        self.pods
            .entry(uid.clone())
            .or_insert_with(|| Tracked::new(uid.clone()))
    }

    /// Takes an event of the kernel about one container.
    fn kernel(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        change: impl FnOnce(&mut Tracked, &ContainerId),
        actions: &mut Vec<Action>,
    ) {
        // After its pod is gone a container may still be told to have ended.
        let Some(pod) = self.pods.get_mut(&key.pod) else {
            return;
        };
        change(pod, &key.id);
        pod.vain_answers = 0;
        self.review_pod(now, &key.pod, actions);
    }

    fn pod_gone(&mut self, uid: &PodUid) {
        // The kubelet may list it for as long as the API has the object; with
        // its cgroup everything that could be done for it is gone.
        self.pods.remove(uid);
        self.agenda.set(uid, None);
    }

    fn listed(&mut self, pods: Vec<Pod>) {
        let mut unlisted: Vec<PodUid> = Vec::new();
        let mut specs: BTreeMap<PodUid, Pod> =
            pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        for (uid, tracked) in &mut self.pods {
            tracked.spec = specs.remove(uid);
            if std::mem::take(&mut tracked.awaits_kubelet) {
                tracked.vain_answers += 1;
            }
            if tracked.spec.is_none() && !tracked.present {
                unlisted.push(uid.clone());
            }
        }
        for uid in unlisted {
            self.pods.remove(&uid);
            self.agenda.set(&uid, None);
        }
        for (uid, spec) in specs {
            // Listed, and no cgroup yet, or no more: kept for its coming.
            let pod = self.pod(&uid);
            pod.spec = Some(spec);
        }
    }

    fn review(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let uids: Vec<PodUid> = self.pods.keys().cloned().collect();
        for uid in uids {
            self.review_pod(now, &uid, actions);
        }
    }

    /// Decides about one pod, from all that is known of it now.
    fn review_pod(&mut self, now: Timestamp, uid: &PodUid, actions: &mut Vec<Action>) {
        self.decide(now, uid, actions);
        let pod = self.pods.get(uid);
        self.agenda
            .set(uid, pod.and_then(|pod| pod.quit.next_wake()));
    }

    fn decide(&mut self, now: Timestamp, uid: &PodUid, actions: &mut Vec<Action>) {
        let Some(tracked) = self.pods.get_mut(uid).filter(|pod| pod.present) else {
            return;
        };
        if !self.walked {
            return;
        }
        let Some(spec) = &tracked.spec else {
            tracked.quit.stop();
            ask_kubelet(tracked, &mut self.fetch, now);
            return;
        };
        let sidecars = sidecars(spec);
        if sidecars.is_empty() {
            return;
        }
        let progress = lifecycle::progress(tracked, spec);
        if self.modes.quit == Mode::Enforce {
            prepare(tracked, &sidecars, actions);
        }
        match progress {
            Progress::Unfinished => tracked.quit.reset(),
            Progress::AskKubelet => {
                tracked.quit.reset();
                ask_kubelet(tracked, &mut self.fetch, now);
            }
            Progress::Finished { at } => {
                tracked.vain_answers = 0;
                finished(tracked, self.modes.quit, &sidecars, at, now, actions);
            }
        }
    }

    fn attempted(
        &mut self,
        now: Timestamp,
        key: &ContainerKey,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) {
        let Some(tracked) = self.pods.get_mut(&key.pod) else {
            return;
        };
        let Some(spec) = &tracked.spec else { return };
        let at = match lifecycle::progress(tracked, spec) {
            Progress::Finished { at } => at,
            Progress::Unfinished | Progress::AskKubelet => return,
        };
        let found = sidecars(spec)
            .into_iter()
            .find(|(name, _sidecar)| tracked.newest(name).is_some_and(|(id, _run)| *id == key.id));
        let Some((name, sidecar)) = found else { return };
        let judgement = tracked
            .quit
            .attempted(now, &name, &key.id, &sidecar.ladder, &outcome);
        let recipe = sidecar.recipe;
        let kind = match judgement {
            Some(Judgement::Accepted(step)) => Kind::QuitAccepted {
                recipe,
                step,
                outcome,
            },
            Some(Judgement::Failed { step, next }) => Kind::StepFailed {
                recipe,
                step,
                outcome,
                next,
            },
            Some(Judgement::Wait) | None => return,
        };
        actions.push(report(tracked, Some(&name), kind, at, now));
    }
}

/// Has the kubelet asked for a pod's sake, ever less often while that is in
/// vain.
fn ask_kubelet(tracked: &mut Tracked, fetch: &mut Fetch, now: Timestamp) {
    if tracked.awaits_kubelet {
        return;
    }
    if let Some(wait) = fetch::patience(tracked.vain_answers) {
        tracked.awaits_kubelet = true;
        fetch.want(now + wait);
    }
}

#[cfg(test)]
mod tests;
