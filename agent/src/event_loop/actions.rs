//! Actions: what the engine asks for is done.

use std::{sync::Arc, time::Duration};

use usher_client::crash_point;
use usher_core::{
    Action, Event,
    base::id::{ContainerKey, SandboxId},
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
    pub(super) fn act(&mut self, action: Action) {
        let kind = action.kind();
        crash_point::reach("before", kind);
        self.carry_out(action);
        crash_point::reach("after", kind);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            // Full only if the engine asked twice, which it does not.
            Action::FetchPods => drop(self.wishes.pods.try_send(())),
            Action::FetchNamespace(name) => {
                // Full when very many Namespaces come at once: later again.
                if let Err(full) = self.wishes.namespaces.try_send(name) {
                    let name = full.into_inner();
                    self.follow_up([Event::Namespace { name, values: None }]);
                }
            }
            Action::Report(decision) => {
                self.pods_changed = true;
                self.reports.push_back(Record::now(decision));
            }
            Action::Answer { sandbox, reply } => self.sandboxes.answer(&sandbox, &reply),
            Action::Arm { sandbox, wanted } => {
                let armed = self.sandboxes.arm(sandbox, &wanted);
                self.pods_changed = true;
                self.follow_up(armed);
            }
            Action::Watch { sandbox, probes } => self.sandboxes.watch(&sandbox, probes),
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
            Action::Reply(answer) => self.reply = Some(answer),
            Action::Forget { sandbox } => {
                self.sandboxes.forget(&sandbox);
                self.pods_changed = true;
            }
            Action::Look { key } => self.look(&key),
            Action::HoldStarts { pod, starts } => {
                self.pods_changed = true;
                let events = self.starts.wish(&pod, starts);
                self.follow_up(events);
            }
            Action::LetGoStart { key } => self.starts.ended(&key),
            Action::Prepare(key) => self.prepare(&key),
            Action::AskVersion { key, port, path } => self.ask_version(key, port, path),
            Action::Attempt { key, step, timeout } => self.attempt(key, step, timeout),
        }
    }

    fn gate(&mut self, sandbox: &SandboxId, command: GateCommand) {
        let done = self.sandboxes.command(sandbox, command);
        self.follow_up(done);
    }

    fn look(&mut self, key: &ContainerKey) {
        let living = self.discovery.living(key);
        let init = living.map(|living| Arc::clone(&living.init));
        let found = init.and_then(|init| self.sandboxes.look(&self.host, key, &init));
        self.follow_up(found);
    }

    /// Takes what has come of an action at once. It makes nothing due: the step that the action is of does, when all that
    /// came with it has been told.
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
            // Looked at when the socket is used.
            at_home: true,
        };
        match quit::prepare(target) {
            Ok(socket) => living.socket = Some(socket),
            // The attempt will tell, if there is one.
            Err(outcome) => {
                tracing::debug!(uid = %key.pod, container_id = %key.id, ?outcome, "could not prepare");
            }
        }
    }

    /// Whether a container is in its pod's network namespace, as far as its
    /// neighbours tell.
    fn at_home(&self, key: &ContainerKey, init: Option<&Arc<Init>>) -> bool {
        init.is_none_or(|init| self.discovery.is_in_pod_netns(key, init.netns))
    }

    fn attempt(&mut self, key: ContainerKey, step: Step, timeout: Duration) {
        let living = self.discovery.living(&key);
        let living = living.map(|living| (Arc::clone(&living.init), living.socket.take()));
        let at_home = self.at_home(&key, living.as_ref().map(|(init, _socket)| init));
        let host = Arc::clone(&self.host);
        let permits = Arc::clone(&self.permits);
        let answered = self.answered.clone();
        tokio::spawn(async move {
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
            tracing::debug!(uid = %key.pod, container_id = %key.id, %step, ?outcome, "tried");
            // Nobody listens only when the agent is ending.
            drop(answered.send(Event::Attempted { key, outcome }).await);
        });
    }

    fn ask_version(&mut self, key: ContainerKey, port: u16, path: String) {
        let living = self.discovery.living(&key);
        let init = living.map(|living| Arc::clone(&living.init));
        let at_home = self.at_home(&key, init.as_ref());
        let host = Arc::clone(&self.host);
        let answered = self.answered.clone();
        tokio::spawn(async move {
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
            drop(answered.send(Event::VersionAnswered { key, body }).await);
        });
    }
}
