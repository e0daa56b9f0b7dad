//! From a bare node to a cluster that runs pods: settings, then components in their order, each awaited.
//!
//! Nothing here sleeps for a fixed time: a component is waited for until it does its work, and its death ends the
//! wait with the end of its log.

use std::{path::PathBuf, process::Command, thread};

use anyhow::{Context, Result, bail};

use super::{Cluster, Component, LIMIT, component, pki, settings, state::Facts};
use crate::{
    node::{cgroup::Layout, process::wait_until},
    programs::{self, Programs},
    progress::{Progress, output, tail},
};

impl Cluster {
    pub(super) fn write_settings(&self, programs: &Programs, facts: &Facts) -> Result<()> {
        let runc = match (facts.layout, self.node.default_layout()) {
            // v2 is seen on a machine whose controllers are elsewhere.
            (Layout::V2, Layout::Hybrid) => programs.own.runc.clone(),
            _ => programs::find("runc").context("no runc")?,
        };
        self.state.link_kubernetes(&programs.kubernetes)?;
        self.state.link(&programs.own.app)?;
        for program in &programs.containerd {
            self.state.link(program)?;
        }
        pki::ensure(&self.state, &self.node.name, facts.link.node())?;
        settings::write(
            &self.state,
            &self.node.name,
            facts,
            &runc,
            &self.config.kubelet,
            self.config.network,
        )
    }

    pub(super) fn start_everything(
        &self,
        facts: &Facts,
        archives: &[PathBuf],
        progress: &Progress,
    ) -> Result<()> {
        self.start(Component::Containerd)?;
        self.start(Component::Etcd)?;
        self.ready(Component::Etcd, || {
            Ok(self.node.listens(component::ETCD_PORT))
        })?;
        self.start(Component::ApiServer)?;
        progress.step("etcd serves");
        thread::scope(|scope| {
            let images = scope.spawn(|| self.import_missing(archives, progress));
            self.start_control_plane(progress)?;
            images
                .join()
                .unwrap_or_else(|_| bail!("the thread that imports images panicked"))?;
            self.start_node_components(facts, progress)
        })?;
        match Component::ALL
            .into_iter()
            .find(|component| !self.runs(*component))
        {
            None => Ok(()),
            Some(component) => bail!(
                "{component} ended; the end of its log:\n{}",
                tail(&self.log_file(component))
            ),
        }
    }

    fn start_control_plane(&self, progress: &Progress) -> Result<()> {
        self.ready(Component::ApiServer, || {
            Ok(self.node.listens(component::API_PORT)
                && self.kubectl(&["get", "--raw", "/readyz"]).is_ok())
        })?;
        progress.step("the API server is ready");
        self.start(Component::ControllerManager)?;
        self.start(Component::Scheduler)
    }

    fn start_node_components(&self, facts: &Facts, progress: &Progress) -> Result<()> {
        self.start(Component::Kubelet)?;
        self.start(Component::KubeProxy)?;
        self.ready(Component::Kubelet, || self.node_is_ready())?;
        progress.step(&format!("node {} is Ready", self.node.name));
        self.ready(Component::ControllerManager, || {
            Ok(self.kubectl(&["get", "serviceaccount", "default"]).is_ok())
        })?;
        let service = format!("https://{}:443", crate::node::API_SERVICE);
        self.ready(Component::KubeProxy, || {
            Ok(self
                .in_node(&["kubectl", "--server", &service, "get", "--raw", "/livez"])
                .is_ok())
        })?;
        progress.step(&format!(
            "services answer; KUBECONFIG={}, node {}",
            self.kubeconfig().display(),
            facts.link.node()
        ));
        Ok(())
    }

    /// Whether the kubelet that runs now has said so, and the controller manager has taken away the taint that keeps
    /// pods from a new node. An earlier kubelet's word still stands for a while after its death.
    fn node_is_ready(&self) -> Result<bool> {
        let record = self.state.pid_file(Component::Kubelet);
        let started = output(
            Command::new("date")
                .args(["-u", "+%FT%TZ", "-r"])
                .arg(&record),
        )?;
        let ready = "{.status.conditions[?(@.type==\"Ready\")]";
        let query =
            format!("jsonpath={ready}.status}}/{{.spec.taints}}/{ready}.lastHeartbeatTime}}");
        let answer = self
            .kubectl(&["get", "node", &self.node.name, "-o", &query])
            .unwrap_or_default();
        Ok(answer
            .strip_prefix("True//")
            .is_some_and(|heartbeat| heartbeat >= started.trim()))
    }

    fn import_missing(&self, archives: &[PathBuf], progress: &Progress) -> Result<()> {
        let socket = "run/containerd/containerd.sock";
        self.ready(Component::Containerd, || {
            let root = self.node.root().context("the node ended")?;
            Ok(std::os::unix::net::UnixStream::connect(root.join(socket)).is_ok())
        })?;
        for archive in archives {
            self.state
                .once_per_image(archive, || self.import_image(archive))?;
        }
        progress.step("containerd has the images");
        Ok(())
    }

    /// Waits until a component does its work; its death ends the wait with the end of its log.
    fn ready(&self, component: Component, mut works: impl FnMut() -> Result<bool>) -> Result<()> {
        wait_until(LIMIT, &format!("{component} to work"), || {
            if !self.runs(component) {
                let log = self.log_file(component);
                bail!(
                    "{component} ended; the end of {}:\n{}",
                    log.display(),
                    tail(&log)
                );
            }
            works()
        })
    }
}
