//! Sandboxes with open network namespaces.
//!
//! The engine decides (`usher_core::Action`). [`Sandboxes`] creates the table of a sandbox and its sockets (`gate`), and
//! probes whether its sidecars are ready (`probe`). Every descriptor of a sandbox keeps its namespace alive, so all of
//! them are closed when the engine forgets it. An agent that ends leaves the tables to the next agent, and to their
//! deadlines.

pub(crate) mod cni_socket;
mod gate;
mod probe;

use std::{collections::HashMap, sync::Arc, time::Instant};

use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, Span};
use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerKey, SandboxId},
    cni::protocol::{PodName, Reply},
    hold::{Probe, Remains, ruleset::Wanted},
};
use usher_sys::{net::netns::Netns, pods::container::Init};

pub(crate) use self::gate::Command as GateCommand;
use self::{
    gate::{Command, Gate, NodeCopies},
    probe::RunningProbe,
};
use crate::{hold::cni_socket::Announcement, quit::Host};

/// Commands that may wait for a gate. The engine sends fewer.
const COMMANDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Sandboxes {
    open: HashMap<SandboxId, Sandbox>,
    events: mpsc::Sender<Event>,
    /// The moment that timestamps count from.
    started: Instant,
    copies: NodeCopies,
    probes: probe::Load,
}

#[derive(Debug)]
struct Sandbox {
    netns: Arc<Netns>,
    span: Span,
    /// CNI plugins that wait for the reply.
    waiting: Vec<oneshot::Sender<Reply>>,
    gate: Option<mpsc::Sender<Command>>,
    /// Dropping a probe ends it.
    probes: Vec<RunningProbe>,
}

impl Sandbox {
    fn new(netns: Netns, span: Span) -> Self {
        Self {
            netns: Arc::new(netns),
            span,
            waiting: Vec::new(),
            gate: None,
            probes: Vec::new(),
        }
    }

    fn run_gate(&mut self, gate: Gate, id: &SandboxId, events: &mpsc::Sender<Event>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        self.gate = Some(commands);
        self.probes.clear();
        let netns = Arc::clone(&self.netns);
        let run = gate.run(id.clone(), netns, receiver, events.clone());
        tokio::spawn(run.instrument(self.span.clone()));
    }
}

impl Sandboxes {
    /// Timestamps count from `started`. Gates and probes send to `events`.
    pub(crate) fn new(started: Instant, events: mpsc::Sender<Event>) -> Self {
        Self {
            open: HashMap::new(),
            events,
            started,
            copies: NodeCopies::default(),
            probes: probe::Load::default(),
        }
    }

    /// The span of a sandbox's pod.
    pub(crate) fn span(&self, sandbox: &SandboxId) -> Span {
        self.open
            .get(sandbox)
            .map_or_else(Span::none, |sandbox| sandbox.span.clone())
    }

    /// Opens an announced sandbox. None where it is to be left alone.
    pub(crate) fn announced(&mut self, host: &Host, announcement: Announcement) -> Option<Event> {
        let Announcement {
            request,
            netns,
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
            // The runtime calls no plugin for a pod with hostNetwork, so the descriptor is of another namespace.
            let _entered = span.enter();
            tracing::warn!(
                "ignored a pod that the CNI plugin announced in the host's network namespace"
            );
            return None;
        }
        let open = self.open.get_mut(&request.sandbox);
        if let Some(open) = open.filter(|open| open.netns.id() == netns.id()) {
            open.waiting.push(reply);
        } else {
            let mut sandbox = Sandbox::new(netns, span);
            sandbox.waiting.push(reply);
            self.open.insert(request.sandbox.clone(), sandbox);
        }
        Some(Event::Sandbox(request))
    }

    /// Replies to the CNI plugins that wait for this sandbox.
    pub(crate) fn answer(&mut self, sandbox: &SandboxId, reply: &Reply) {
        let Some(sandbox) = self.open.get_mut(sandbox) else {
            return;
        };
        for waiting in sandbox.waiting.drain(..) {
            // Fails when the plugin has reached its own timeout.
            drop(waiting.send(reply.clone()));
        }
    }

    /// Creates a sandbox's gate, so that connections wait.
    pub(crate) fn arm(&mut self, id: SandboxId, wanted: &Wanted) -> Option<Event> {
        let sandbox = self.open.get_mut(&id)?;
        let armed = Gate::arm(&sandbox.netns, wanted, self.started, self.copies.of(&id));
        let result = match armed {
            Ok(gate) => {
                sandbox.run_gate(gate, &id, &self.events);
                Ok(())
            }
            Err(error) => Err(chain(&error)),
        };
        Some(Event::Armed {
            sandbox: id,
            result,
        })
    }

    /// Runs these probes until they succeed.
    pub(crate) fn probe(&mut self, id: &SandboxId, probes: Vec<Probe>) {
        let Some(sandbox) = self.open.get_mut(id) else {
            return;
        };
        for probe in probes {
            let target = probe::Target {
                sandbox: id.clone(),
                netns: Arc::clone(&sandbox.netns),
                span: sandbox.span.clone(),
            };
            let running = RunningProbe::start(target, probe, &self.probes, self.events.clone());
            sandbox.probes.push(running);
        }
    }

    /// Sends a command to a sandbox's gate. Without a gate, opening all succeeds at once.
    pub(crate) fn command(&mut self, id: &SandboxId, command: Command) -> Option<Event> {
        let sandbox = self.open.get_mut(id)?;
        let opens_all = matches!(command, Command::OpenAll);
        if opens_all {
            sandbox.probes.clear();
        }
        let sent = match &sandbox.gate {
            Some(gate) => gate.try_send(command).is_ok(),
            None => false,
        };
        if opens_all {
            sandbox.gate = None;
        }
        (opens_all && !sent).then(|| Event::Opened {
            sandbox: id.clone(),
            result: Ok(usher_core::hold::Tally::default()),
        })
    }

    /// Closes every descriptor of a sandbox.
    pub(crate) fn forget(&mut self, id: &SandboxId) {
        self.open.remove(id);
    }

    /// Opens the namespace of a container, and adopts the table of an earlier agent in it. `span` is the pod's.
    pub(crate) fn look(
        &mut self,
        host: &Host,
        key: &ContainerKey,
        init: &Init,
        span: Span,
    ) -> Option<Event> {
        let id = SandboxId::parse(key.id.as_str()).ok()?;
        let found = self.adopt(host, init, &id, span);
        match found {
            Ok(None) => None,
            Ok(Some(remains)) => Some(Event::Found {
                key: key.clone(),
                sandbox: id,
                remains,
            }),
            // The process has ended meanwhile.
            Err(_) if !init.pidfd.is_alive() => None,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not read a pod's network namespace; connections that an earlier agent holds there are released at their deadline");
                None
            }
        }
    }

    /// None for the host's namespace, and for that of a process that has ended or moved to another one.
    fn adopt(
        &mut self,
        host: &Host,
        init: &Init,
        id: &SandboxId,
        span: Span,
    ) -> Result<Option<Option<Remains>>, gate::Error> {
        if init.netns == host.netns {
            return Ok(None);
        }
        let netns = Netns::of_process(&host.proc, init.pidfd.pid())?;
        // After opening: a process that is alive now had this pid when its namespace was opened.
        if !init.pidfd.is_alive() || netns.id() != init.netns {
            return Ok(None);
        }
        let mut sandbox = Sandbox::new(netns, span);
        let adopted = Gate::adopt(&sandbox.netns, self.started, self.copies.of(id))?;
        let remains = adopted.map(|(gate, remains)| {
            sandbox.run_gate(gate, id, &self.events);
            remains
        });
        self.open.insert(id.clone(), sandbox);
        Ok(Some(remains))
    }
}
