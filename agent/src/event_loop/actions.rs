//! Carries out the engine's actions.

use std::{sync::Arc, time::Duration};

use tracing::{Instrument, Level, Span};
use usher_client::crash_point;
use usher_core::{
    Action, Event,
    base::id::{ContainerKey, PodUid, SandboxId},
    engine::request::Answer,
    metric::value::Value,
    quit::outcome::Outcome,
    recipe::step::Step,
};
use usher_sys::pods::container::Init;

use super::NodeLoop;
use crate::{
    hold::GateCommand,
    quit::{self, Target},
    telemetry::decision_log::Record,
};

impl NodeLoop {
    /// Carries an action out. Returns the engine's answer to an operator where the action is one.
    pub(super) fn act(&mut self, action: Action) -> Option<Answer> {
        let kind = action.kind();
        let _entered = self.span(&action).entered();
        crash_point::reach("before", kind);
        let answer = self.carry_out(action);
        crash_point::reach("after", kind);
        answer
    }

    /// The span of an action: a child of its pod's. At the default level only the pods with an open sandbox have a span,
    /// so the request that follows an exit costs none.
    fn span(&self, action: &Action) -> Span {
        let pod = match action {
            Action::Answer { sandbox, .. }
            | Action::Arm { sandbox, .. }
            | Action::Watch { sandbox, .. }
            | Action::OpenSome { sandbox, .. }
            | Action::OpenAll { sandbox }
            | Action::Renew { sandbox, .. }
            | Action::Mend { sandbox, .. }
            | Action::Forget { sandbox } => self.sandboxes.span(sandbox),
            // Its warnings need the pod's span at every level.
            Action::Look { key } => self.pod_span(&key.pod),
            Action::HoldStarts { pod, .. } if tracing::enabled!(Level::DEBUG) => self.pod_span(pod),
            Action::LetGoStart { key }
            | Action::Prepare(key)
            | Action::AskVersion { key, .. }
            | Action::Attempt { key, .. }
                if tracing::enabled!(Level::DEBUG) =>
            {
                self.pod_span(&key.pod)
            }
            _ => return Span::none(),
        };
        let action = tracing::debug_span!(parent: &pod, "action", kind = action.kind());
        if action.is_disabled() { pod } else { action }
    }

    /// The field is not `name`: in the JSON format that is the key of the span's own name.
    fn pod_span(&self, uid: &PodUid) -> Span {
        tracing::info_span!("pod", pod = self.engine.pod_name(uid), %uid)
    }

    fn carry_out(&mut self, action: Action) -> Option<Answer> {
        self.pods_changed |= matches!(
            action,
            Action::Report(_)
                | Action::Arm { .. }
                | Action::Forget { .. }
                | Action::HoldStarts { .. }
        );
        match action {
            Action::Reply(answer) => return Some(answer),
            // Full only where the engine requests the pods twice, which it does not.
            Action::FetchPods => drop(self.requests.pods.try_send(())),
            Action::FetchNamespace(name) => self.request_namespace(name),
            Action::Report(decision) => self.records.push(Record::now(decision)),
            Action::Answer { sandbox, reply } => self.sandboxes.answer(&sandbox, &reply),
            Action::Arm { sandbox, wanted } => {
                let armed = self.sandboxes.arm(sandbox, &wanted);
                self.follow_up(armed);
            }
            Action::Watch { sandbox, probes } => self.sandboxes.probe(&sandbox, probes),
            Action::OpenSome { sandbox, ports } => {
                self.gate(&sandbox, GateCommand::OpenSome(ports));
            }
            Action::OpenAll { sandbox } => self.gate(&sandbox, GateCommand::OpenAll),
            Action::Renew {
                sandbox,
                ports,
                timeout,
            } => self.gate(&sandbox, GateCommand::Renew(ports, timeout)),
            Action::Mend { sandbox, wanted } => {
                self.gate(&sandbox, GateCommand::Mend(wanted));
            }
            Action::Forget { sandbox } => self.sandboxes.forget(&sandbox),
            Action::Look { key } => self.look(&key),
            Action::HoldStarts { pod, starts } => {
                let events = self.starts.set(&pod, starts);
                self.follow_up(events);
            }
            Action::LetGoStart { key } => self.starts.release(&key),
            Action::Prepare(key) => self.prepare(&key),
            Action::AskVersion { key, port, path } => self.ask_version(key, port, path),
            Action::Attempt { key, step, timeout } => self.attempt(key, step, timeout),
        }
        None
    }

    fn request_namespace(&mut self, name: String) {
        // Full when very many Namespaces come at once: the engine requests it again later.
        if let Err(full) = self.requests.namespaces.try_send(name) {
            let name = full.into_inner();
            self.follow_up([Event::Namespace { name, values: None }]);
        }
    }

    fn gate(&mut self, sandbox: &SandboxId, command: GateCommand) {
        let done = self.sandboxes.command(sandbox, command);
        self.follow_up(done);
    }

    fn look(&mut self, key: &ContainerKey) {
        let living = self.discovery.living(key);
        let init = living.map(|living| Arc::clone(&living.init));
        let found = init.and_then(|init| {
            self.sandboxes
                .look(&self.host, key, &init, self.pod_span(&key.pod))
        });
        self.follow_up(found);
    }

    /// Passes the result of an action to the engine at once. Timers are left to the step that the action is part of,
    /// which runs them when it has passed on all of its events.
    fn follow_up(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let now = self.now();
            self.step_at(self.overdue(now).unwrap_or(now), event);
        }
    }

    fn prepare(&mut self, key: &ContainerKey) {
        let Some(living) = self.discovery.living(key) else {
            return;
        };
        let target = Target {
            host: &self.host,
            key,
            init: &living.init,
            // Checked when the socket is used.
            at_home: true,
        };
        match quit::prepare(target) {
            Ok(socket) => living.socket = Some(socket),
            // The attempt reports it, if there is one.
            Err(outcome) => {
                tracing::debug!(container_id = %key.id, outcome = outcome.name(), detail = detail(&outcome), "could not prepare a socket");
            }
        }
    }

    /// Whether a container is in its pod's network namespace, judged by the pod's other containers.
    fn at_home(&self, key: &ContainerKey, init: Option<&Arc<Init>>) -> bool {
        init.is_none_or(|init| self.discovery.is_in_pod_netns(key, init.netns))
    }

    fn attempt(&mut self, key: ContainerKey, step: Step, timeout: Duration) {
        let living = self.discovery.living(&key);
        let living = living.map(|living| (Arc::clone(&living.init), living.socket.take()));
        let at_home = self.at_home(&key, living.as_ref().map(|(init, _socket)| init));
        let host = Arc::clone(&self.host);
        let permits = Arc::clone(&self.tasks.permits);
        let events = self.tasks.events.clone();
        let attempt = async move {
            let outcome = match living {
                None => Outcome::Gone,
                Some((init, socket)) => {
                    // Never closed.
                    let _permit = permits.acquire().await;
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &init,
                        at_home,
                    };
                    target.attempt(socket, &step, timeout).await
                }
            };
            tracing::debug!(container_id = %key.id, %step, outcome = outcome.name(), detail = detail(&outcome), "tried a step");
            // Fails only when the agent is ending.
            drop(events.send(Event::Attempted { key, outcome }).await);
        };
        tokio::spawn(attempt.in_current_span());
    }

    fn ask_version(&mut self, key: ContainerKey, port: u16, path: String) {
        let living = self.discovery.living(&key);
        let init = living.map(|living| Arc::clone(&living.init));
        let at_home = self.at_home(&key, init.as_ref());
        let host = Arc::clone(&self.host);
        let events = self.tasks.events.clone();
        let query = async move {
            let body = match init {
                None => None,
                Some(init) => {
                    let target = Target {
                        host: &host,
                        key: &key,
                        init: &init,
                        at_home,
                    };
                    target.question(port, &path).await
                }
            };
            drop(events.send(Event::VersionAnswered { key, body }).await);
        };
        tokio::spawn(query.in_current_span());
    }
}

/// What the outcome's name does not include.
fn detail(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Rejected(status) => Some(format!("status {status}")),
        Outcome::Failed(why) => Some(why.clone()),
        _ => None,
    }
}
