//! What comes from outside the node's kernel, and what the loop makes of it.

use std::{mem, sync::Arc};

use tokio::sync::oneshot;
use usher_client::run_dir::Annotations;
use usher_core::{
    Event, admin,
    pod::spec::Pod,
    settings::{config::Config, mode::Modes, overrides::NamespaceValues},
};
use usher_sys::pods::cgroup;

use super::{NodeLoop, operator::Person};

/// What comes from outside the node's kernel.
#[derive(Debug)]
pub(crate) enum Input {
    /// The Node's annotations.
    Node(Annotations),
    /// They are not known from before; the API server may tell.
    NodeUnknown,
    /// This configuration counts.
    Config(Arc<Config>),
    /// What a Namespace says; None when it could not be had.
    Namespace(String, Option<NamespaceValues>),
    /// The kubelet's pods; None when they could not be had.
    Pods(Option<Vec<Pod>>),
    /// Whoever sends this wants to know that the loop runs.
    Pulse(oneshot::Sender<()>),
    /// Or what it knows.
    View(oneshot::Sender<View>),
    /// A person orders something, or asks what would be done.
    Person(Person),
}

/// What the loop knows, for people.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) pods: Vec<admin::Pod>,
    pub(crate) modes: Modes,
    pub(crate) lacks: admin::Lacks,
    pub(crate) census: admin::Census,
}

impl NodeLoop {
    pub(super) fn take(&mut self, input: Input) -> Result<(), cgroup::Error> {
        match input {
            Input::Node(annotations) => {
                self.annotations = annotations;
                self.node_is_known = true;
                self.take_modes();
            }
            Input::NodeUnknown => self.take_modes(),
            Input::Config(config) => {
                self.step(Event::Configured(config));
                if !mem::replace(&mut self.trusted, true) {
                    self.take_modes();
                }
            }
            Input::Namespace(name, values) => self.step(Event::Namespace { name, values }),
            Input::Pods(pods) => {
                // A container that the list mentions and the tree does not show
                // is taken for gone, so what the tree shows by now comes first.
                let events = self.discovery.now()?;
                self.steps(events);
                let pods = pods.filter(|_pods| self.discovery.is_whole());
                self.step(match pods {
                    Some(pods) => Event::Pods(pods),
                    None => Event::PodsUnavailable,
                });
            }
            // Who asked may have stopped waiting.
            Input::Pulse(pulse) => drop(pulse.send(())),
            Input::View(answer) => drop(answer.send(self.view())),
            Input::Person(person) => {
                let events = self.discovery.now()?;
                self.steps(events);
                self.answer(person);
            }
        }
        Ok(())
    }
}
