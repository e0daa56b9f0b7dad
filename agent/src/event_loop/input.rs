//! Inputs: what the service thread sends to the event loop.

use std::{mem, sync::Arc};

use tokio::sync::oneshot;
use usher_core::{
    Event, NamespaceReply, admin,
    pod::spec::Pod,
    settings::{
        config::Config,
        mode::{Modes, NodeValues},
    },
};
use usher_sys::pods::cgroup;

use super::{NodeLoop, operator::AdminRequest};

#[derive(Debug)]
pub(crate) enum Input {
    Node(NodeValues),
    /// The run directory has no values of the Node. The API server may still send them.
    NodeUnknown,
    Config(Arc<Config>),
    Namespace(String, NamespaceReply),
    /// The kubelet's pods; None if the request failed.
    Pods(Option<Vec<Pod>>),
    /// A liveness probe of the event loop.
    Ping(oneshot::Sender<()>),
    View(oneshot::Sender<View>),
    Costs(oneshot::Sender<Vec<admin::NamespaceCost>>),
    Operator(AdminRequest),
}

/// A snapshot for the admin socket.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) pods: Vec<admin::Pod>,
    pub(crate) modes: Modes,
    pub(crate) lacks: admin::Lacks,
    pub(crate) census: admin::Census,
}

impl NodeLoop {
    pub(super) fn receive(&mut self, input: Input) -> Result<(), cgroup::Error> {
        match input {
            Input::Node(values) => {
                self.node.values = Some(values);
                let modes = self.report_modes();
                self.step(Event::Modes(modes));
            }
            Input::NodeUnknown => {
                let modes = self.report_modes();
                self.step(Event::Modes(modes));
            }
            Input::Config(config) => {
                let node = &mut self.node;
                let is_new = !mem::replace(&mut node.config_trusted, true);
                let before = mem::replace(&mut node.default_modes, config.modes);
                let modes = match is_new || before != config.modes {
                    true => self.report_modes(),
                    false => self.node.modes().modes(),
                };
                self.step(Event::Configured { config, modes });
            }
            Input::Namespace(name, reply) => {
                self.step(Event::Namespace { name, reply });
            }
            Input::Pods(pods) => {
                // For the engine, a container in the list but not in the cgroup tree is gone. So the pending changes
                // of the tree come first.
                let mut events = self.discovery.now()?;
                let pods = pods.filter(|_pods| self.discovery.is_whole());
                events.push(pods.map_or(Event::PodsUnavailable, Event::Pods));
                // Together: a timer that the list would have stopped does not run between them.
                self.steps(events);
            }
            // Fails if the client has stopped waiting.
            Input::Ping(reply) => drop(reply.send(())),
            Input::View(reply) => drop(reply.send(self.view())),
            Input::Costs(reply) => {
                let now = self.now();
                drop(reply.send(self.engine.costs(now)));
            }
            Input::Operator(request) => {
                self.settle_discovery()?;
                self.reply(request);
            }
        }
        Ok(())
    }

    fn settle_discovery(&mut self) -> Result<(), cgroup::Error> {
        let events = self.discovery.now()?;
        self.steps(events);
        Ok(())
    }
}
