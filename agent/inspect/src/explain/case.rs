//! All data about one pod, with the queries that the rules share.

pub(super) mod mode;

use std::time::Duration;

use usher_core::{
    decision::timeline::{Detail, Entry},
    hold::Released,
    node::socket,
    plan::{Plan, Sidecar, version_query::VersionQueries},
    pod::{
        restart_policy::{self, RestartPolicy, Verdict},
        spec::Pod,
    },
    settings::{annotation, config::Config, overrides::NamespaceValues},
};

use super::{
    date::span,
    facts::{Container, Ended, Facts, State, non_empty},
    seen::{Process, Seen},
};

/// The name that Istio gives its proxy. Only a container with this name marks a pod as part of an Istio mesh.
pub(super) const ISTIO_PROXY: &str = "istio-proxy";

/// The phase of a pod whose containers all ended with 0.
pub(super) const SUCCEEDED: &str = "Succeeded";

#[derive(Debug)]
pub struct Case<'pod> {
    pub(super) pod: &'pod Pod,
    pub(super) facts: &'pod Facts,
    pub(super) seen: &'pod Seen,
    pub(super) plan: Plan,
    pub(super) is_excluded: bool,
}

impl<'pod> Case<'pod> {
    /// `pod` and `facts` describe the same pod.
    pub fn new(
        pod: &'pod Pod,
        facts: &'pod Facts,
        seen: &'pod Seen,
        config: &Config,
        namespace: &NamespaceValues,
    ) -> Self {
        Self {
            plan: Plan::of(pod, config, namespace, &VersionQueries::default()),
            is_excluded: config.excluded_namespaces.contains(&pod.namespace),
            pod,
            facts,
            seen,
        }
    }

    /// The app containers, in the order of the spec.
    pub(super) fn apps(&self) -> impl Iterator<Item = &'pod Container> {
        let containers = self.facts.containers.iter();
        containers.filter(|container| self.plan.is_app(&container.name))
    }

    /// The sidecars that are regular containers, each with its plan.
    pub(super) fn sidecars(&self) -> impl Iterator<Item = (&Sidecar, &'pod Container)> {
        let sidecars = self.plan.sidecars.iter();
        sidecars.filter_map(|sidecar| Some((sidecar, self.facts.container(&sidecar.name)?)))
    }

    /// Every container that serves the apps: sidecars, native ones included, and containers that end by themselves.
    pub(super) fn servants(&self) -> impl Iterator<Item = &'pod Container> {
        let regular = self.facts.containers.iter();
        regular
            .filter(|container| !self.plan.is_app(&container.name))
            .chain(self.natives())
    }

    /// Whether no container is an app, as in the pod of an Istio gateway.
    pub(super) fn has_no_app(&self) -> bool {
        self.apps().next().is_none()
    }

    /// What texts call a container that is no app.
    pub(super) fn servant_kind(&self) -> &'static str {
        if self.has_no_app() {
            "container"
        } else {
            "sidecar"
        }
    }

    pub(super) fn running_sidecars(&self) -> impl Iterator<Item = &'pod Container> {
        let sidecars = self.sidecars().map(|(_, container)| container);
        sidecars.filter(|container| container.runs())
    }

    pub(super) fn natives(&self) -> impl Iterator<Item = &'pod Container> {
        self.facts.init.iter().filter(|init| init.is_native)
    }

    /// Istio's proxy, as a regular or a native sidecar.
    pub(super) fn istio(&self) -> Option<&'pod Container> {
        let proxy = self.facts.container(ISTIO_PROXY)?;
        let is_regular = self.plan.sidecars.iter().any(|one| *one.recipe == *"istio");
        (is_regular || proxy.is_native).then_some(proxy)
    }

    pub(super) fn policy(&self, name: &str) -> RestartPolicy {
        let container = self.pod.container(name);
        container.map_or(self.pod.restart_policy, |found| self.pod.policy_of(found))
    }

    /// Whether the pod finishes: no app restarts after every exit code.
    pub(super) fn finishes(&self) -> bool {
        let mut apps = self.apps().peekable();
        apps.peek().is_some() && apps.all(|app| self.policy(&app.name) != RestartPolicy::Always)
    }

    /// The last run of a container that does not restart.
    pub(super) fn ended_for_good(&self, container: &'pod Container) -> Option<&'pod Ended> {
        let State::Ended(ended) = &container.status.state else {
            return None;
        };
        if container.is_native {
            return None;
        }
        let spec = self.pod.container(&container.name);
        let rules = spec.map_or(&[][..], |found| &found.restart_rules);
        let code = i32::try_from(ended.code).ok();
        let verdict = restart_policy::judge(self.policy(&container.name), rules, code);
        (verdict == Verdict::EndedForGood).then_some(ended)
    }

    /// The last runs of all apps, once all apps finished.
    pub(super) fn ends(&self) -> Option<Vec<&'pod Ended>> {
        let ends: Option<Vec<_>> = self.apps().map(|app| self.ended_for_good(app)).collect();
        ends.filter(|ends| !ends.is_empty())
    }

    /// When the last app ended, once all apps finished.
    pub(super) fn finished_ms(&self) -> Option<u64> {
        self.ends()?.iter().filter_map(|end| end.finished_ms).max()
    }

    /// Whether the pod is in a terminal phase or is being deleted.
    pub(super) fn is_over(&self) -> bool {
        self.pod.terminal.is_some() || self.pod.deleting
    }

    pub(super) fn decisions(&self) -> &'pod [Entry] {
        self.seen.timeline.as_deref().unwrap_or_default()
    }

    pub(super) fn newest(&self, matches: impl Fn(&Detail) -> bool) -> Option<&'pod Entry> {
        let mut newest = self.decisions().iter().rev();
        newest.find(|entry| matches(&entry.detail))
    }

    /// The decision that the pod's processes are not visible on the node, as with gVisor and Kata.
    pub(super) fn hidden(&self) -> Option<&'pod Entry> {
        let latest = self.newest(|detail| {
            matches!(
                detail,
                Detail::RuntimeUnsupported | Detail::Waiting | Detail::PodFinished
            )
        });
        latest.filter(|entry| matches!(entry.detail, Detail::RuntimeUnsupported))
    }

    /// Whether the last hold reached its deadline.
    pub(super) fn released_at_deadline(&self) -> bool {
        let last = self.newest(|detail| matches!(detail, Detail::HoldReleased { .. }));
        last.is_some_and(|entry| {
            let deadline = Some(Released::Deadline);
            matches!(entry.detail, Detail::HoldReleased { cause, .. } if cause == deadline)
        })
    }

    /// Whether the last hold reached its deadline, and its ports are not known to have listeners now. The kubelet reports a
    /// sidecar without a readiness probe as ready, so its status does not show this.
    pub(super) fn reached_deadline(&self) -> bool {
        self.released_at_deadline() && self.held_ports_listen() != Some(true)
    }

    pub(super) fn processes(&self, container: &str) -> impl Iterator<Item = &'pod Process> {
        let processes = self.seen.processes.iter().flatten();
        processes.filter(move |process| process.container == container)
    }

    /// Whether a TCP port has a listener; None if the sockets are unknown.
    pub(super) fn listens(&self, port: u16) -> Option<bool> {
        let mut sockets = self.seen.sockets.as_ref()?.iter();
        Some(sockets.any(|one| one.state == socket::State::Listen && one.local.port() == port))
    }

    /// Whether every port that usher holds has a listener; None if the sockets are unknown.
    pub(super) fn held_ports_listen(&self) -> Option<bool> {
        let held_ports = self.plan.held_ports();
        let listens: Option<Vec<bool>> = held_ports
            .iter()
            .map(|held| self.listens(held.port))
            .collect();
        listens.map(|listens| listens.into_iter().all(|listens| listens))
    }

    pub(super) fn node(&self) -> &str {
        non_empty(&self.facts.node).unwrap_or("NODE")
    }

    pub(super) fn ago(&self, at_ms: u64) -> String {
        format!("{} ago", self.since(at_ms))
    }

    pub(super) fn since(&self, at_ms: u64) -> String {
        span(self.seen.now_ms.saturating_sub(at_ms))
    }

    pub(super) fn logs(&self, container: &str) -> String {
        let (namespace, pod) = (&self.facts.namespace, &self.facts.name);
        format!("kubectl -n {namespace} logs {pod} -c {container}")
    }

    pub(super) fn annotation_path(key: &str) -> String {
        format!("metadata.annotations[{key}]")
    }

    /// The part of a pod template that sets an annotation.
    pub(super) fn template_annotation(key: &str, value: &str) -> String {
        format!("metadata:\n  annotations:\n    {key}: \"{value}\"")
    }

    /// The setting that excludes the pod from a capability, and where it is.
    pub(super) fn opt_out(&self, key: &'static str) -> String {
        match self.facts.annotation(key) {
            Some(value) => format!("metadata.annotations[{key}] = {value:?}"),
            None => format!(
                "{key} on its Namespace {}, or the configuration's defaults",
                self.facts.namespace
            ),
        }
    }

    /// The setting that excludes the pod's namespace from usher.
    pub(super) fn excluded(&self) -> Option<String> {
        let namespace = &self.facts.namespace;
        self.is_excluded
            .then(|| format!("excludedNamespaces has {namespace}"))
    }

    /// The setting that forbids usher to terminate the pod's sidecars.
    pub(super) fn opted_out_of_quit(&self) -> Option<String> {
        (!self.plan.tuning.quit).then(|| self.opt_out(annotation::QUIT))
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

pub(super) fn names<'pod>(containers: impl IntoIterator<Item = &'pod Container>) -> Vec<&'pod str> {
    let containers = containers.into_iter();
    containers.map(|container| &container.name[..]).collect()
}
