//! Starting, disturbing and stopping single components.
//!
//! A component is a child of the node's pid 1, so it outlives the process that started it. Its pid in the node's pid
//! namespace and its start time are in the state directory.

use std::fs;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use super::{Cluster, Component, LIMIT, Member};
use crate::{
    node::{
        cgroup::Layout,
        process::{Identity, wait_until},
    },
    progress::output,
};

/// Writes its own pid and start time to the first argument and becomes a component that logs to the second.
const LAUNCH: &str = include_str!("launch.sh");

impl Member {
    /// Whether a component's process is alive.
    #[must_use]
    pub fn runs(&self, component: Component) -> bool {
        self.process(component).is_some()
    }

    /// Starts a component that does not run; the caller waits for its readiness.
    pub fn start(&self, component: Component) -> Result<()> {
        if self.runs(component) {
            return Ok(());
        }
        let facts = self
            .state
            .facts()
            .with_context(|| format!("node {} is not up", self.node.name))?;
        if component == Component::Kubelet {
            self.node.prepare_kubelet(facts.layout)?;
        }
        let record = self.state.pid_file(component);
        if record.exists() {
            fs::remove_file(&record).with_context(|| format!("remove {}", record.display()))?;
        }
        let mut launch = self.command("setsid")?;
        launch
            .args(["--fork", "sh", "-c", LAUNCH, "launch"])
            .arg(&record)
            .arg(self.log_file(component));
        launch.args(component.command(&self.state, &self.node.name, &facts));
        if facts.layout == Layout::V2 {
            launch.env("USHER_TEST_RUNC", facts.runtime.program()?);
        }
        output(&mut launch).with_context(|| format!("start {component}"))?;
        wait_until(LIMIT, &format!("the process of {component}"), || {
            Ok(record.exists())
        })
    }

    /// Sends a signal to a component and returns at once.
    pub fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        let process = self
            .process(component)
            .with_context(|| format!("{component} does not run"))?;
        let name = signal.as_str().trim_start_matches("SIG");
        let kill = [
            "sh",
            "-c",
            "kill -s \"$1\" \"$2\"",
            "kill",
            name,
            &process.pid.to_string(),
        ];
        self.run(&kill)
            .with_context(|| format!("send {signal} to {component}"))
            .map(drop)
    }

    /// Ends a component by a signal and waits for its exit. [`Cluster::start`] or [`Cluster::up`] restart it.
    pub fn stop(&self, component: Component, signal: Signal) -> Result<()> {
        self.signal(component, signal)?;
        wait_until(LIMIT, &format!("the end of {component}"), || {
            Ok(!self.runs(component))
        })
    }

    /// The component's process, by its pid inside the node.
    fn process(&self, component: Component) -> Option<Identity> {
        let proc = self.node.root()?.join("proc");
        Identity::read(&self.state.pid_file(component)).filter(|process| process.lives(&proc))
    }
}

/// The components of the first node, which has one of each.
impl Cluster {
    /// Whether a component's process is alive.
    #[must_use]
    pub fn runs(&self, component: Component) -> bool {
        self.first.runs(component)
    }

    /// Starts a component that does not run; the caller waits for its readiness.
    pub fn start(&self, component: Component) -> Result<()> {
        self.first.start(component)
    }

    /// Sends a signal to a component and returns at once.
    pub fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        self.first.signal(component, signal)
    }

    /// Ends a component by a signal and waits for its exit. [`Cluster::start`] or [`Cluster::up`] restart it.
    pub fn stop(&self, component: Component, signal: Signal) -> Result<()> {
        self.first.stop(component, signal)
    }
}
