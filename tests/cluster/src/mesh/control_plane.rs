//! Stops and resumes istiod, so that a proxy becomes ready exactly when a test requests it.
//!
//! A stopped istiod keeps its connections: it responds to a proxy's request 30 to 80 ms after it is
//! resumed. Meanwhile no pod can be created in the mesh, because the webhook does not respond either. After 10 s
//! its readiness probe removes it from its Service.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::{Cluster, cluster::istio::SYSTEM};

#[derive(Debug, Clone)]
pub struct ControlPlane<'cluster> {
    cluster: &'cluster Cluster,
    /// In the node's pid namespace.
    pid: String,
}

/// A stopped istiod, resumed on drop.
#[derive(Debug)]
pub struct Paused<'cluster>(ControlPlane<'cluster>);

impl<'cluster> ControlPlane<'cluster> {
    /// The first process of istiod's container, from containerd.
    pub fn find(cluster: &'cluster Cluster) -> Result<Self> {
        let id = "jsonpath={.items[*].status.containerStatuses[0].containerID}";
        let pods = ["-n", SYSTEM, "get", "pods", "-l", "app=istiod", "-o", id];
        let id = cluster.kubectl(&pods)?;
        let id = id.trim().trim_start_matches("containerd://");
        ensure!(!id.is_empty(), "istiod does not run");
        let tasks = cluster.in_node(&["ctr", "tasks", "ls"])?;
        let task = tasks.lines().find(|line| line.starts_with(id));
        let pid = task
            .and_then(|line| line.split_whitespace().nth(1))
            .with_context(|| format!("containerd has no task of istiod's container {id}"))?;
        Ok(Self {
            cluster,
            pid: pid.to_owned(),
        })
    }

    pub fn pause(&self) -> Result<Paused<'cluster>> {
        self.signal(Signal::SIGSTOP)?;
        Ok(Paused(self.clone()))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let name = signal.as_str().trim_start_matches("SIG");
        let kill = ["sh", "-c", "kill -s \"$1\" \"$2\"", "kill", name, &self.pid];
        self.cluster
            .in_node(&kill)
            .with_context(|| format!("send {signal} to istiod"))
            .map(drop)
    }
}

impl Paused<'_> {
    /// Resumes istiod; a drop does the same, but cannot report a failure.
    pub fn resume(self) -> Result<()> {
        self.0.signal(Signal::SIGCONT)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        // A second SIGCONT changes nothing; the cluster may be gone.
        self.0.signal(Signal::SIGCONT).ok();
    }
}
