//! The kubelet's list of pods, and the configuration that selects what it contains.

use std::{collections::BTreeMap, sync::Arc};

use super::{Engine, review};
use crate::{
    base::{id::PodUid, time::Timestamp},
    engine::action::Action,
    pod::spec::Pod,
    settings::config::Config,
};

impl Engine {
    pub(super) fn listed(&mut self, now: Timestamp, pods: Vec<Pod>, actions: &mut Vec<Action>) {
        self.set_next_config();
        let mut unlisted: Vec<PodUid> = Vec::new();
        let mut specs: BTreeMap<PodUid, Pod> =
            pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        for (uid, tracked) in &mut self.pods {
            let is_new = tracked.spec.is_none();
            let spec = specs.remove(uid);
            // A kubelet that has just started may list no pods yet: the last listing stays valid while the pod has a cgroup.
            let is_missing = spec.is_none() && tracked.present && tracked.spec.is_some();
            if is_missing {
                tracked.linger.unlisted(self.kubelet_poll.last_sent());
            } else {
                tracked.set_spec(spec);
                tracked.runs.end_reported(now);
                if let Some(spec) = &tracked.spec {
                    tracked
                        .cost
                        .listed(spec.deleting, self.kubelet_poll.last_sent());
                }
            }
            let is_deletion = tracked.spec.as_ref().is_some_and(|spec| spec.deleting);
            tracked
                .linger
                .listed(self.kubelet_poll.last_sent(), is_deletion);
            match tracked.awaits_kubelet {
                Some(due) if self.kubelet_poll.last_sent() >= Some(due) => {
                    tracked.awaits_kubelet = None;
                    tracked.unhelpful_answers += 1;
                }
                // This list was requested for another pod, and too early for this one.
                Some(due) => self.kubelet_poll.request(due),
                None => {}
            }
            if is_missing {
                review::poll_kubelet(tracked, &mut self.kubelet_poll, now);
            }
            match &tracked.spec {
                None if !tracked.present => unlisted.push(uid.clone()),
                None => {}
                Some(spec) => {
                    let is_due = tracked.present
                        && self.namespaces.begin_request(now, &spec.namespace, is_new);
                    let name = is_due.then(|| spec.namespace.clone());
                    actions.extend(name.map(Action::FetchNamespace));
                }
            }
        }
        for uid in unlisted {
            self.forget_sandbox(&uid, actions);
            self.pods.remove(&uid);
            self.timers.set(&uid, None);
        }
        for (uid, spec) in specs {
            // Its cgroup does not exist yet, or is gone: the listing is kept until the cgroup appears.
            self.pod_mut(&uid).set_spec(Some(spec));
        }
        let pods = &self.pods;
        self.namespaces.retain(|name| {
            let mut specs = pods.values().filter_map(|pod| pod.spec.as_ref());
            specs.any(|spec| spec.namespace == name)
        });
    }

    /// Applies a configuration. Recipes that read more of a pod wait for the next list: the last one lacks it, so that a
    /// sidecar could be taken for an app, or be terminated at a wrong port.
    pub(super) fn set_config(
        &mut self,
        now: Timestamp,
        config: Arc<Config>,
        actions: &mut Vec<Action>,
    ) {
        self.kubelet_poll.request(now);
        if config.reads().is_part_of(&self.config.reads()) {
            self.next_config = None;
            self.config = config;
        } else {
            let recipes = Arc::clone(&self.config.recipes);
            let current = Config {
                recipes,
                ..Config::clone(&config)
            };
            self.next_config = Some((now, config));
            self.config = Arc::new(current);
        }
        self.outdate_plans(|_pod| true);
        self.review_all(now, actions);
    }

    /// Applies the recipes that waited for this list.
    fn set_next_config(&mut self) {
        let sent = self.kubelet_poll.last_sent();
        if let Some((_since, config)) = self.next_config.take_if(|(since, _)| sent >= Some(*since))
        {
            self.config = config;
            self.outdate_plans(|_pod| true);
        }
    }

    pub(super) fn outdate_plans(&mut self, which: impl Fn(&Pod) -> bool) {
        for tracked in self.pods.values_mut() {
            if tracked.spec.as_ref().is_some_and(|spec| which(spec)) {
                tracked.plan_outdated = true;
            }
        }
    }
}
