//! The tables of earlier agents, which are looked for in the namespaces of pods, and of earlier workers.

use tracing::Span;
use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerKey, SandboxId},
    hold::Tally,
    worker::message::{ForgottenTable, Job},
};
use usher_sys::{
    net::netns::{self, Netns},
    pods::container::Init,
};

use super::{Sandbox, Sandboxes};
use crate::{
    quit::Host,
    worker::{Purpose, Worker},
};

impl Sandboxes {
    /// Opens the namespace of a container, and looks for an earlier agent's table in it. `span` is the pod's span. The
    /// reply is [`Event::Found`]; a returned event reports a failure.
    pub(crate) fn look(
        &mut self,
        worker: &mut Worker,
        host: &Host,
        key: &ContainerKey,
        init: &Init,
        span: Span,
    ) -> Option<Event> {
        let not_found = || Event::NotFound { key: key.clone() };
        let Ok(id) = SandboxId::parse(key.id.as_str()) else {
            return Some(not_found());
        };
        let netns = match open(host, init) {
            Ok(Some(netns)) => netns,
            Ok(None) => return Some(not_found()),
            // The process has exited in the meantime.
            Err(_) if !init.pidfd.is_alive() => return Some(not_found()),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not open a pod's network namespace; connections that an earlier agent holds there are released at their deadline");
                return Some(not_found());
            }
        };
        self.look_into(worker, &id, netns, key, span);
        None
    }

    /// Looks for an earlier agent's table in a namespace that is open.
    pub(super) fn look_into(
        &mut self,
        worker: &mut Worker,
        id: &SandboxId,
        netns: Netns,
        key: &ContainerKey,
        span: Span,
    ) {
        let sandbox = self.opened(id, netns, span);
        sandbox.looking = Some(key.clone());
        sandbox.adopt(worker, id, Purpose::Look(key.clone(), id.clone()));
    }

    /// The worker has looked into a sandbox.
    pub(super) fn looked(&mut self, id: &SandboxId) {
        if let Some(sandbox) = self.open.get_mut(id) {
            sandbox.looking = None;
        }
    }

    /// Forgets a sandbox that the agent could not look into, unless the CNI plugin has announced it. The worker may
    /// still adopt the table of an earlier agent: it stays until its deadline, as one that cannot be adopted does.
    pub(crate) fn not_found(&mut self, worker: &mut Worker, id: &SandboxId) {
        self.looked(id);
        if self.open.get(id).is_some_and(|open| !open.is_announced) {
            self.close(worker, id, ForgottenTable::Kept);
        }
    }

    /// Sends the looks, tables, released ports and probes of a worker that ended to its successor.
    pub(crate) fn readopt(&self, worker: &mut Worker) {
        for (id, sandbox) in &self.open {
            sandbox.readopt(worker, id);
        }
        for (id, sandbox) in &self.open {
            for probe in &sandbox.probes {
                sandbox.send_probe(worker, id, probe.clone());
            }
        }
    }

    /// The event for an earlier worker's table that was adopted or is missing.
    pub(crate) fn readopted(&self, id: SandboxId, is_there: Result<bool, String>) -> Option<Event> {
        let result = match is_there {
            Ok(true) => return None,
            Ok(false) => Ok(Tally::default()),
            Err(error) => Err(error),
        };
        Some(Event::Released {
            sandbox: id,
            result,
        })
    }
}

impl Sandbox {
    fn adopt(&self, worker: &mut Worker, id: &SandboxId, purpose: Purpose) {
        let job = Job::Adopt {
            sandbox: id.clone(),
        };
        self.send(worker, purpose, job);
    }

    fn readopt(&self, worker: &mut Worker, id: &SandboxId) {
        if let Some(key) = &self.looking {
            // No further container may start, and no other event would repeat it.
            self.adopt(worker, id, Purpose::Look(key.clone(), id.clone()));
        }
        if !self.has_table {
            return;
        }
        self.adopt(worker, id, Purpose::Readopt(id.clone()));
        if !self.released.is_empty() {
            // The worker may have ended before it released them.
            let job = Job::ReleasePorts {
                sandbox: id.clone(),
                ports: self.released.clone(),
            };
            self.send(worker, Purpose::Change(id.clone()), job);
        }
    }
}

/// Opens the namespace of a container. None for the host's namespace, and if the process has exited or moved to
/// another namespace.
fn open(host: &Host, init: &Init) -> Result<Option<Netns>, netns::Error> {
    if init.netns == host.netns {
        return Ok(None);
    }
    let netns = Netns::of_process(&host.proc, init.pidfd.pid())?;
    // Checked after the open: a process that is alive now had this pid during the open.
    let is_of_container = init.pidfd.is_alive() && netns.id() == init.netns;
    Ok(is_of_container.then_some(netns))
}
