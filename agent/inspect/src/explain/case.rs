//! Everything that is known of one pod, and the questions that all rooms ask of it.

use usher_core::{
    decision::timeline::Entry,
    plan::{Plan, Sidecar, version_query::Asked},
    pod::{
        image,
        restart_policy::{self, RestartPolicy, Verdict},
        spec::Pod,
    },
    recipe::Version,
    settings::{annotation, config::Config, overrides::NamespaceValues},
};

use super::{
    facts::{Container, Ended, Facts, State},
    seen::{Process, Seen},
};

/// The name that Istio gives its proxy; nothing else makes a pod one of Istio's.
pub(super) const ISTIO_PROXY: &str = "istio-proxy";

/// One pod.
#[derive(Debug)]
pub struct Case<'pod> {
    pub(super) pod: &'pod Pod,
    pub(super) facts: &'pod Facts,
    pub(super) seen: &'pod Seen,
    pub(super) plan: Plan,
    /// The configuration says that it is none of usher's business.
    pub(super) is_excluded: bool,
}

impl<'pod> Case<'pod> {
    /// `pod` and `facts` are of the same pod.
    pub fn new(
        pod: &'pod Pod,
        facts: &'pod Facts,
        seen: &'pod Seen,
        config: &Config,
        namespace: &NamespaceValues,
    ) -> Self {
        Self {
            plan: Plan::of(pod, config, namespace, &Asked::default()),
            is_excluded: config.excluded_namespaces.contains(&pod.namespace),
            pod,
            facts,
            seen,
        }
    }

    /// Its apps, in the order of the spec.
    pub(super) fn apps(&self) -> impl Iterator<Item = &'pod Container> {
        let containers = self.facts.containers.iter();
        containers.filter(|container| self.plan.is_app(&container.name))
    }

    /// Its sidecars that are regular containers, with what is planned for each.
    pub(super) fn sidecars(&self) -> impl Iterator<Item = (&Sidecar, &'pod Container)> {
        let sidecars = self.plan.sidecars.iter();
        sidecars.filter_map(|sidecar| Some((sidecar, self.facts.container(&sidecar.name)?)))
    }

    /// Istio's proxy, as a regular container or a native one.
    pub(super) fn istio(&self) -> Option<&'pod Container> {
        let proxy = self.facts.container(ISTIO_PROXY)?;
        let is_regular = self.plan.sidecars.iter().any(|one| *one.recipe == *"istio");
        (is_regular || proxy.is_native).then_some(proxy)
    }

    /// What runs in a container, where its image's tag tells.
    pub(super) fn version(container: &Container) -> Option<Version> {
        image::version(&container.image)
    }

    /// The policy that counts for a regular container.
    pub(super) fn policy(&self, name: &str) -> RestartPolicy {
        let container = self.pod.container(name);
        container.map_or(self.pod.restart_policy, |found| self.pod.policy_of(found))
    }

    /// Whether its work comes to an end: no app is started again whatever its code.
    pub(super) fn finishes(&self) -> bool {
        let mut apps = self.apps().peekable();
        apps.peek().is_some() && apps.all(|app| self.policy(&app.name) != RestartPolicy::Always)
    }

    /// How an app ended that is not started again.
    pub(super) fn ended_for_good(&self, app: &'pod Container) -> Option<&'pod Ended> {
        let State::Ended(ended) = &app.status.state else {
            return None;
        };
        let rules = self
            .pod
            .container(&app.name)
            .map(|found| &found.restart_rules[..]);
        let code = i32::try_from(ended.code).ok();
        let verdict =
            restart_policy::judge(self.policy(&app.name), rules.unwrap_or_default(), code);
        (verdict == Verdict::EndedForGood).then_some(ended)
    }

    /// How its apps ended, when all of them have for good.
    pub(super) fn ends(&self) -> Option<Vec<&'pod Ended>> {
        let ends: Option<Vec<_>> = self.apps().map(|app| self.ended_for_good(app)).collect();
        ends.filter(|ends| !ends.is_empty())
    }

    /// When the last of its apps ended, when all of them have for good.
    pub(super) fn finished_ms(&self) -> Option<u64> {
        let ends = self.ends()?;
        ends.iter().filter_map(|end| end.finished_ms).max()
    }

    /// Its regular sidecars that run.
    pub(super) fn living(&self) -> Vec<(&Sidecar, &'pod Container)> {
        let living = self.sidecars();
        living
            .filter(|(_sidecar, container)| container.runs())
            .collect()
    }

    /// Whether the kubelet has ended it as a whole, or is about to.
    pub(super) fn is_over(&self) -> bool {
        self.pod.terminal.is_some() || self.pod.deleting
    }

    /// What usher decided, oldest first.
    pub(super) fn decisions(&self) -> &'pod [Entry] {
        self.seen.timeline.as_deref().unwrap_or_default()
    }

    /// The newest decision of one of these names.
    pub(super) fn newest(&self, names: &[&str]) -> Option<&'pod Entry> {
        let mut newest = self.decisions().iter().rev();
        newest.find(|entry| names.contains(&&*entry.decision))
    }

    /// The processes of a container.
    pub(super) fn processes(&self, container: &str) -> impl Iterator<Item = &'pod Process> {
        let processes = self.seen.processes.iter().flatten();
        let container = container.to_owned();
        processes.filter(move |process| process.container == container)
    }

    /// Whether somebody listens at a TCP port; None where nobody looked.
    pub(super) fn listens(&self, port: u16) -> Option<bool> {
        let sockets = self.seen.sockets.as_ref()?;
        let mut listening = sockets
            .iter()
            .filter(|socket| socket.connecting_to.is_none());
        Some(listening.any(|socket| socket.port == port))
    }

    /// The Node's name, for commands.
    pub(super) fn node(&self) -> &str {
        match self.facts.node.as_str() {
            "" => "NODE",
            name => name,
        }
    }

    /// The command that has usher do on this node what it only watches.
    pub(super) fn enforce(&self, key: &str) -> String {
        format!(
            "kubectl annotate node {} {key}={} --overwrite",
            self.node(),
            "enforce"
        )
    }

    /// A piece of a pod's template with this annotation.
    pub(super) fn template_annotation(key: &str, value: &str) -> String {
        format!("metadata:\n  annotations:\n    {key}: \"{value}\"")
    }

    /// Where a value of its annotation counts that has usher leave it alone.
    pub(super) fn opt_out(&self, key: &'static str) -> String {
        match self.facts.annotation(key) {
            Some(value) => format!("metadata.annotations[{key}] = {value:?}"),
            None => format!(
                "{key} on its Namespace {}, or the configuration's defaults",
                self.facts.namespace
            ),
        }
    }

    /// Whether usher was told not to show its sidecars out.
    pub(super) fn opted_out_of_quit(&self) -> Option<String> {
        (!self.plan.tuning.quit).then(|| self.opt_out(annotation::QUIT))
    }
}
