//! Sandboxes with open network namespaces.
//!
//! The engine decides (`usher_core::Action`). [`Sandboxes`] keeps the namespaces open and sends jobs to the worker:
//! install the table of a sandbox, probe its sidecars for readiness, release it. Every descriptor of a sandbox keeps
//! its namespace alive, so the agent closes them when the engine forgets the sandbox. After the agent's end the tables
//! remain until the next agent adopts them or their deadlines expire.

mod adoption;
pub(crate) mod cni_socket;

use std::{collections::HashMap, sync::Arc};

use tokio::sync::oneshot;
use tracing::Span;
use usher_core::{
    Event,
    base::id::{ContainerKey, SandboxId},
    cni::protocol::{PodName, Reply},
    hold::{Probe, Tally, ruleset::Wanted},
    worker::message::{ForgottenTable, Job},
};
use usher_sys::net::netns::Netns;

use crate::{
    hold::cni_socket::Announcement,
    quit::Host,
    worker::{Descriptor, Purpose, Worker},
};

#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    open: HashMap<SandboxId, Sandbox>,
}

#[derive(Debug)]
struct Sandbox {
    netns: Arc<Netns>,
    span: Span,
    /// CNI plugins that wait for the reply.
    waiting: Vec<oneshot::Sender<Reply>>,
    /// A CNI plugin has announced it; otherwise the agent found it.
    is_announced: bool,
    /// The worker has installed a table here, or has a job to install one.
    has_table: bool,
    /// The worker has a job to install a table.
    is_arming: bool,
    /// The container whose namespace this is, while the worker looks for the table of an earlier agent in it.
    looking: Option<ContainerKey>,
    /// Probes that have not succeeded yet.
    probes: Vec<Probe>,
    /// Ports of the table that have been released one by one.
    released: Vec<u16>,
}

impl Sandbox {
    fn new(netns: Netns, span: Span) -> Self {
        Self {
            netns: Arc::new(netns),
            span,
            waiting: Vec::new(),
            is_announced: false,
            has_table: false,
            is_arming: false,
            looking: None,
            probes: Vec::new(),
            released: Vec::new(),
        }
    }

    fn send(&self, worker: &mut Worker, purpose: Purpose, job: Job) {
        let descriptors = vec![Descriptor::Netns(Arc::clone(&self.netns))];
        worker.send(self.netns.id(), purpose, job, descriptors);
    }

    fn send_probe(&self, worker: &mut Worker, id: &SandboxId, probe: Probe) {
        let job = Job::Probe {
            sandbox: id.clone(),
            probe: probe.clone(),
        };
        self.send(worker, Purpose::Probe(id.clone(), probe), job);
    }
}

impl Sandboxes {
    pub(crate) fn span(&self, sandbox: &SandboxId) -> Span {
        self.open
            .get(sandbox)
            .map_or_else(Span::none, |sandbox| sandbox.span.clone())
    }

    /// Opens an announced sandbox. None for the host's network namespace, which the agent never changes, and if the
    /// plugin has gone.
    pub(crate) fn announced(
        &mut self,
        worker: &mut Worker,
        host: &Host,
        announcement: Announcement,
    ) -> Option<Event> {
        let Announcement {
            request,
            netns,
            plugin,
            reply,
        } = announcement;
        let PodName {
            namespace,
            name,
            uid,
        } = &request.pod;
        let span = tracing::info_span!(
            "pod",
            pod = format!("{namespace}/{name}"),
            uid = uid.as_ref().map(tracing::field::display)
        );
        if netns.id() == host.netns {
            // The runtime calls no plugin for a pod with hostNetwork, so this is not the pod's namespace.
            let _entered = span.enter();
            tracing::warn!(
                "ignored a pod that the CNI plugin announced in the host's network namespace"
            );
            return None;
        }
        // Checked at the moment of the decision: this process may have been stopped until now.
        if plugin.is_closed() {
            let _entered = span.enter();
            tracing::debug!("ignored a pod whose CNI plugin no longer waits");
            return None;
        }
        if let Some(uid) = uid {
            worker.used_by(netns.id(), uid);
        }
        let sandbox = self.opened(&request.sandbox, netns, span);
        sandbox.is_announced = true;
        sandbox.waiting.push(reply);
        Some(Event::Sandbox(request))
    }

    /// The sandbox with this network namespace, which is open from now on. It may have been found and announced.
    fn opened(&mut self, id: &SandboxId, netns: Netns, span: Span) -> &mut Sandbox {
        if self
            .open
            .get(id)
            .is_some_and(|open| open.netns.id() != netns.id())
        {
            self.open.remove(id);
        }
        let open = self.open.entry(id.clone());
        open.or_insert_with(|| Sandbox::new(netns, span))
    }

    /// Replies to the CNI plugins that wait for this sandbox.
    pub(crate) fn answer(&mut self, sandbox: &SandboxId, reply: &Reply) {
        let Some(sandbox) = self.open.get_mut(sandbox) else {
            return;
        };
        for waiting in sandbox.waiting.drain(..) {
            // Fails when the plugin has timed out.
            drop(waiting.send(reply.clone()));
        }
    }

    /// Installs a sandbox's table, so that connections wait. The result is [`Event::Armed`].
    pub(crate) fn arm(
        &mut self,
        worker: &mut Worker,
        id: SandboxId,
        wanted: Wanted,
    ) -> Option<Event> {
        let Some(sandbox) = self.open.get_mut(&id) else {
            // Without a result the engine would wait until the pod ends.
            return Some(Event::Armed {
                sandbox: id,
                result: Err("its network namespace is no longer open".to_owned()),
            });
        };
        sandbox.has_table = true;
        sandbox.is_arming = true;
        sandbox.probes.clear();
        sandbox.released.clear();
        let job = Job::Arm {
            sandbox: id.clone(),
            wanted,
        };
        sandbox.send(worker, Purpose::Arm(id), job);
        None
    }

    /// Runs these probes until they succeed.
    pub(crate) fn probe(&mut self, worker: &mut Worker, id: &SandboxId, probes: Vec<Probe>) {
        let Some(sandbox) = self.open.get_mut(id) else {
            return;
        };
        for probe in probes {
            sandbox.send_probe(worker, id, probe.clone());
            sandbox.probes.push(probe);
        }
    }

    /// Changes a sandbox's table. Without a sandbox or a table, releasing all ports succeeds at once.
    pub(crate) fn change(&mut self, worker: &mut Worker, id: SandboxId, job: Job) -> Option<Event> {
        let releases_all = matches!(job, Job::ReleaseAll { .. });
        let released = |sandbox| {
            releases_all.then_some(Event::Released {
                sandbox,
                result: Ok(Tally::default()),
            })
        };
        let Some(sandbox) = self.open.get_mut(&id) else {
            return released(id);
        };
        if releases_all {
            sandbox.probes.clear();
            worker.cancel_probes(&id);
        }
        if sandbox.has_table {
            if let Job::ReleasePorts { ports, .. } = &job {
                sandbox.released.extend(ports);
            }
            let purpose = match releases_all {
                true => Purpose::ReleaseAll(id),
                false => Purpose::Change(id),
            };
            sandbox.send(worker, purpose, job);
            return None;
        }
        released(id)
    }

    /// Deletes the table of a sandbox, and closes every descriptor of it.
    pub(crate) fn forget(&mut self, worker: &mut Worker, id: &SandboxId) {
        self.close(worker, id, ForgottenTable::Deleted);
    }

    fn close(&mut self, worker: &mut Worker, id: &SandboxId, table: ForgottenTable) {
        let Some(sandbox) = self.open.remove(id) else {
            return;
        };
        worker.cancel_probes(id);
        let job = Job::Forget {
            sandbox: id.clone(),
            table,
        };
        // The worker has the namespace open if it received a job for it, so this job needs no descriptor.
        worker.send(
            sandbox.netns.id(),
            Purpose::Change(id.clone()),
            job,
            Vec::new(),
        );
    }

    /// Updates the sandbox that an event is about.
    pub(crate) fn note(&mut self, worker: &mut Worker, event: &Event) {
        if let Event::Armed { sandbox, .. } = event
            && let Some(open) = self.open.get_mut(sandbox)
        {
            open.is_arming = false;
        }
        match event {
            Event::Found {
                sandbox, remains, ..
            } => {
                self.looked(sandbox);
                self.set_table(sandbox, remains.is_some());
            }
            Event::Armed {
                sandbox,
                result: Ok(()),
            } => self.set_table(sandbox, true),
            Event::Released {
                sandbox,
                result: Ok(_),
            } => self.set_table(sandbox, false),
            Event::Armed { sandbox, .. } | Event::Released { sandbox, .. } => {
                self.remove_leftover(worker, sandbox);
            }
            Event::Ready { sandbox, probe } | Event::ProbeFailed { sandbox, probe } => {
                if let Some(open) = self.open.get_mut(sandbox) {
                    open.probes.retain(|running| running != probe);
                }
            }
            _ => {}
        }
    }

    /// Removes a table that the worker may have left, for instance because it ended during the job.
    fn remove_leftover(&mut self, worker: &mut Worker, id: &SandboxId) {
        // A table that is installed after the job that failed replaces what that left.
        let Some(sandbox) = self.open.get_mut(id).filter(|open| !open.is_arming) else {
            return;
        };
        sandbox.has_table = false;
        sandbox.released.clear();
        let job = Job::Forget {
            sandbox: id.clone(),
            table: ForgottenTable::LeftoverDeleted,
        };
        sandbox.send(worker, Purpose::Change(id.clone()), job);
    }

    fn set_table(&mut self, id: &SandboxId, has_table: bool) {
        if let Some(sandbox) = self.open.get_mut(id) {
            sandbox.has_table = has_table;
            if !has_table {
                sandbox.released.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests;
