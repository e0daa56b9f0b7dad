//! Sandboxes whose network namespaces are open, and what is done in them.
//!
//! The core decides (`usher_core::Action`); here a sandbox gets its table and
//! the sockets that belong to it (`gate`), and is asked whether its sidecars
//! are ready (`probe`). Every descriptor of a sandbox keeps its namespace
//! alive: all of them are closed when the core forgets it. An agent that ends
//! leaves the tables to the next one, and to their deadlines.

pub(crate) mod cni_socket;
mod gate;
mod probe;

use std::{collections::HashMap, sync::Arc, time::Instant};

use tokio::sync::{mpsc, oneshot};
use usher_client::error_chain::chain;
use usher_core::{
    Event,
    base::id::{ContainerKey, SandboxId},
    cni::protocol::Reply,
    hold::{Probe, Remains, ruleset::Wanted},
};
use usher_sys::{net::netns::Netns, pods::container::Init};

pub(crate) use self::gate::Command as GateCommand;
use self::{
    gate::{Command, Gate},
    probe::Watch,
};
use crate::{hold::cni_socket::Announcement, quit::Host};

/// Commands that may wait for a gate: more are never given.
const COMMANDS: usize = 64;

/// The sandboxes.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    open: HashMap<SandboxId, Sandbox>,
    events: mpsc::Sender<Event>,
    begin: Instant,
    /// How many probes are going on.
    probes: probe::Load,
}

#[derive(Debug)]
struct Sandbox {
    netns: Arc<Netns>,
    /// Plugins that wait for the answer.
    answers: Vec<oneshot::Sender<Reply>>,
    gate: Option<mpsc::Sender<Command>>,
    /// Ends with it.
    watches: Vec<Watch>,
}

impl Sandbox {
    fn new(netns: Netns) -> Self {
        Self {
            netns: Arc::new(netns),
            answers: Vec::new(),
            gate: None,
            watches: Vec::new(),
        }
    }

    /// Has a gate stand in it.
    fn post(&mut self, gate: Gate, id: &SandboxId, events: &mpsc::Sender<Event>) {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        self.gate = Some(commands);
        self.watches.clear();
        let netns = Arc::clone(&self.netns);
        tokio::spawn(gate.run(id.clone(), netns, receiver, events.clone()));
    }
}

impl Sandboxes {
    /// `begin` is the moment that timestamps count from; `events` takes what
    /// comes of actions.
    pub(crate) fn new(begin: Instant, events: mpsc::Sender<Event>) -> Self {
        Self {
            open: HashMap::new(),
            events,
            begin,
            probes: probe::Load::default(),
        }
    }

    /// Takes an announcement in.
    pub(crate) fn announced(&mut self, host: &Host, announcement: Announcement) -> Option<Event> {
        let Announcement {
            request,
            netns,
            answer,
        } = announcement;
        if netns.id() == host.netns {
            // With hostNetwork no plugin is called; a plugin that is has
            // somebody else's namespace in hand.
            tracing::warn!(
                pod = format!("{}/{}", request.pod.namespace, request.pod.name),
                "the CNI plugin announced a pod in the host's network namespace; left alone"
            );
            return None;
        }
        let known = self.open.get_mut(&request.sandbox);
        if let Some(known) = known.filter(|known| known.netns.id() == netns.id()) {
            known.answers.push(answer);
        } else {
            let mut sandbox = Sandbox::new(netns);
            sandbox.answers.push(answer);
            self.open.insert(request.sandbox.clone(), sandbox);
        }
        Some(Event::Sandbox(request))
    }

    /// Tells the plugins that wait.
    pub(crate) fn answer(&mut self, sandbox: &SandboxId, reply: &Reply) {
        let Some(sandbox) = self.open.get_mut(sandbox) else {
            return;
        };
        for answer in sandbox.answers.drain(..) {
            // Nobody waits any more: it took too long.
            drop(answer.send(reply.clone()));
        }
    }

    /// Has connections wait.
    pub(crate) fn arm(&mut self, id: SandboxId, wanted: &Wanted) -> Option<Event> {
        let sandbox = self.open.get_mut(&id)?;
        let armed = Gate::arm(&sandbox.netns, wanted, self.begin);
        let result = match armed {
            Ok(gate) => {
                sandbox.post(gate, &id, &self.events);
                Ok(())
            }
            Err(error) => Err(chain(&error)),
        };
        Some(Event::Armed {
            sandbox: id,
            result,
        })
    }

    /// Finds out when these are so.
    pub(crate) fn watch(&mut self, id: &SandboxId, probes: Vec<Probe>) {
        let Some(sandbox) = self.open.get_mut(id) else {
            return;
        };
        for probe in probes {
            let netns = Arc::clone(&sandbox.netns);
            let watch = Watch::start(id.clone(), netns, probe, &self.probes, self.events.clone());
            sandbox.watches.push(watch);
        }
    }

    /// Gives a sandbox's gate a command. Without a gate there is nothing to
    /// open.
    pub(crate) fn command(&mut self, id: &SandboxId, command: Command) -> Option<Event> {
        let sandbox = self.open.get_mut(id)?;
        let all = matches!(command, Command::OpenAll);
        if all {
            sandbox.watches.clear();
        }
        let sent = match &sandbox.gate {
            Some(gate) => gate.try_send(command).is_ok(),
            None => false,
        };
        if all {
            sandbox.gate = None;
        }
        (all && !sent).then(|| Event::Opened {
            sandbox: id.clone(),
            result: Ok(usher_core::hold::Tally::default()),
        })
    }

    /// Closes everything of a sandbox.
    pub(crate) fn forget(&mut self, id: &SandboxId) {
        self.open.remove(id);
    }

    /// Opens the namespace of a container, and looks for what an earlier agent
    /// left in it.
    pub(crate) fn look(&mut self, host: &Host, key: &ContainerKey, init: &Init) -> Option<Event> {
        let id = SandboxId::parse(key.id.as_str()).ok()?;
        let found = self.find(host, init, &id);
        match found {
            Ok(None) => None,
            Ok(Some(remains)) => Some(Event::Found {
                key: key.clone(),
                sandbox: id,
                remains,
            }),
            // It has ended meanwhile.
            Err(_) if !init.pidfd.is_alive() => None,
            Err(error) => {
                tracing::warn!(uid = %key.pod, error = %chain(&error), "could not look into a pod's network namespace; what an earlier agent holds there opens at its deadline");
                None
            }
        }
    }

    /// None for the host's namespace, and for that of a process that has ended
    /// or moved.
    fn find(
        &mut self,
        host: &Host,
        init: &Init,
        id: &SandboxId,
    ) -> Result<Option<Option<Remains>>, gate::Error> {
        if init.netns == host.netns {
            return Ok(None);
        }
        let netns = Netns::of_process(&host.proc, init.pidfd.pid())?;
        // The order matters: a process that is alive now had its number when
        // its namespace was opened.
        if !init.pidfd.is_alive() || netns.id() != init.netns {
            return Ok(None);
        }
        let mut sandbox = Sandbox::new(netns);
        let adopted = Gate::adopt(&sandbox.netns, self.begin)?;
        let remains = adopted.map(|(gate, remains)| {
            sandbox.post(gate, id, &self.events);
            remains
        });
        self.open.insert(id.clone(), sandbox);
        Ok(Some(remains))
    }
}
