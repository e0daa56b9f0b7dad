//! Actions that take more than one call.

use std::sync::Arc;

use tracing::{Level, Span};
use usher_core::{
    Action, Event, NamespaceReply,
    base::id::{ContainerKey, PodUid, SandboxId},
    metric::value::Value,
    plan::version_query::VersionRequest,
    worker::message::Job,
};

use super::NodeLoop;
use crate::{
    quit,
    worker::{Descriptor, News, Purpose},
};

impl NodeLoop {
    /// The span of an action, a child of its pod's span. At the default level only pods with an open sandbox have a
    /// span, so the request that follows an exit does not pay for one.
    pub(super) fn span(&self, action: &Action) -> Span {
        let pod = match action {
            Action::Answer { sandbox, .. }
            | Action::Arm { sandbox, .. }
            | Action::Watch { sandbox, .. }
            | Action::ReleasePorts { sandbox, .. }
            | Action::ReleaseAll { sandbox }
            | Action::Renew { sandbox, .. }
            | Action::Repair { sandbox, .. }
            | Action::Forget { sandbox } => self.sandboxes.span(sandbox),
            // Its warnings need the pod's span at every level.
            Action::Look { key } => self.pod_span(&key.pod),
            Action::HoldStarts { pod, .. } | Action::HoldStops { pod, .. }
                if tracing::enabled!(Level::DEBUG) =>
            {
                self.pod_span(pod)
            }
            Action::ReleaseStart { key }
            | Action::Prepare(key)
            | Action::AskVersion { key, .. }
            | Action::SampleTraffic { key, .. }
            | Action::Attempt { key, .. }
            | Action::Drain { key, .. }
                if tracing::enabled!(Level::DEBUG) =>
            {
                self.pod_span(&key.pod)
            }
            _ => return Span::none(),
        };
        let action = tracing::debug_span!(parent: &pod, "action", kind = action.kind());
        if action.is_disabled() { pod } else { action }
    }

    /// The field is not `name`, because the JSON format uses that key for the span's own name.
    pub(super) fn pod_span(&self, uid: &PodUid) -> Span {
        tracing::info_span!("pod", pod = self.engine.pod_name(uid), %uid)
    }

    pub(super) fn request_namespace(&mut self, name: String) {
        // Full after many requests at a time. The engine requests the Namespace again later.
        if let Err(full) = self.requests.namespaces.try_send(name) {
            let name = full.into_inner();
            let reply = NamespaceReply::Failed { last: None };
            self.follow_up([Event::Namespace { name, reply }]);
        }
    }

    pub(super) fn change(&mut self, sandbox: SandboxId, job: impl FnOnce(SandboxId) -> Job) {
        let job = job(sandbox.clone());
        let done = self.sandboxes.change(&mut self.worker, sandbox, job);
        self.follow_up(done);
    }

    pub(super) fn look(&mut self, key: &ContainerKey) {
        let living = self.discovery.living(key);
        let init = living.map(|living| Arc::clone(&living.init));
        let span = self.pod_span(&key.pod);
        let failed = match init {
            None => Some(Event::NotFound { key: key.clone() }),
            Some(init) => self
                .sandboxes
                .look(&mut self.worker, &self.host, key, &init, span),
        };
        self.follow_up(failed);
    }

    pub(super) fn receive_news(&mut self, news: News) {
        let event = match news {
            News::Event(event) => Some(event),
            News::Readopted(sandbox, is_there) => self.sandboxes.readopted(sandbox, is_there),
            News::Ended => {
                self.sandboxes.readopt(&mut self.worker);
                None
            }
        };
        if let Some(Event::Attempted { key, outcome }) = &event {
            self.reporter.metrics.attempts.inc(outcome);
            tracing::debug!(container_id = %key.id, outcome = outcome.name(), detail = quit::detail(outcome), "tried a step");
            if let Some(living) = self.discovery.living(key).filter(|_| outcome.is_reply()) {
                // A reply proves that the program runs. The container's task polls, and may not have observed it yet.
                living.init.set_executed();
            }
        }
        self.steps(event);
    }

    /// Passes the result of an action to the engine at once, with the time of the current step: that step has run, or will
    /// run, the timers that are due by then.
    pub(super) fn follow_up(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            self.note(&event);
            for action in self.engine.apply(self.engine.now(), event) {
                self.act(action);
            }
        }
    }

    pub(super) fn prepare(&mut self, key: &ContainerKey) {
        let Some(living) = self.discovery.living(key) else {
            return;
        };
        match quit::prepare(&self.host, &mut self.worker, key, &living.init) {
            Ok(prepared) => living.prepared = Some(prepared),
            // The later attempt reports the failure.
            Err(outcome) => {
                tracing::debug!(container_id = %key.id, outcome = outcome.name(), detail = quit::detail(&outcome), "could not prepare a socket");
            }
        }
    }

    pub(super) fn ask_version(&mut self, key: ContainerKey, request: VersionRequest) {
        let sidecar = self.discovery.sidecar(&key);
        quit::query_version(&self.host, &mut self.worker, key, sidecar, request);
    }

    pub(super) fn sample_traffic(&mut self, key: ContainerKey, status_ports: Vec<u16>) {
        // The last sample in observe mode is made when the app has ended.
        let opened = match self.discovery.init_in_pod(&key) {
            None => Err("it has ended".to_owned()),
            Some(init) if !self.discovery.is_in_pod_netns(&key, init.netns) => {
                Err("it is in another network namespace than the pod".to_owned())
            }
            Some(init) => quit::open(&self.host, &init).map_err(|outcome| {
                quit::detail(&outcome).unwrap_or_else(|| outcome.name().to_owned())
            }),
        };
        match opened {
            Ok(netns) => {
                let job = Job::SampleTraffic {
                    id: key.id.clone(),
                    status_ports,
                };
                let (id, purpose) = (netns.id(), Purpose::SampleTraffic(key));
                let descriptors = vec![Descriptor::Netns(Arc::new(netns))];
                self.worker.send(id, purpose, job, descriptors);
            }
            Err(error) => {
                let sample = Err(error);
                self.worker.report(Event::TrafficSampled { key, sample });
            }
        }
    }
}
