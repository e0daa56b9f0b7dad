//! From a bare node to a cluster that runs pods: settings, then the components in order, with a wait for each.
//!
//! Nothing here sleeps for a fixed time: it waits until a component does its work, and the death of the component ends the
//! wait with the end of its log.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Cluster, Component, LIMIT, Member, component, pki, settings, state::Facts};
use crate::{
    node::{cgroup::Layout, process::wait_until},
    programs::Programs,
    progress::{Progress, output, tail},
};

impl Cluster {
    /// Writes all files that a node's programs read.
    pub(super) fn write_settings(
        &self,
        member: &Member,
        programs: &Programs,
        facts: &Facts,
    ) -> Result<()> {
        let runc = match (facts.layout, member.node.default_layout()) {
            // v2 on a machine with the controllers in other hierarchies.
            (Layout::V2, Layout::Hybrid) => programs.own.runc.clone(),
            _ => facts.runtime.program()?,
        };
        let (state, address) = (&member.state, facts.link.node());
        state.link_kubernetes(&programs.kubernetes)?;
        state.link(&programs.own.app)?;
        for program in &programs.containerd {
            state.link(program)?;
        }
        match member.number {
            1 => pki::ensure(state, member.name(), address)?,
            _ => {
                let api = self.address().context("the first node has no address")?;
                pki::ensure_worker(&self.first.state, state, member.name(), address, api)?;
            }
        }
        let (options, network) = (&self.config.kubelet, self.config.network);
        settings::write(member, facts, &runc, options, network)
    }

    /// Starts the components of another node. Returns when pods there can reach the API server.
    pub(super) fn start_worker(
        &self,
        member: &Member,
        archives: &[PathBuf],
        progress: &Progress,
    ) -> Result<()> {
        member.start(Component::Containerd)?;
        member.import_missing(archives)?;
        member.copy_missing_images(&self.first)?;
        self.start_node_components(member)?;
        progress.step(&format!("node {} is Ready too", member.name()));
        alive(member)
    }

    pub(super) fn start_everything(
        &self,
        facts: &Facts,
        archives: &[PathBuf],
        progress: &Progress,
    ) -> Result<()> {
        self.start(Component::Containerd)?;
        self.start(Component::Etcd)?;
        let first = &self.first;
        first.ready(Component::Etcd, || {
            Ok(first.node.listens(component::ETCD_PORT))
        })?;
        self.start(Component::ApiServer)?;
        progress.step("etcd serves");
        thread::scope(|scope| {
            let images = scope.spawn(|| first.import_missing(archives));
            self.start_control_plane(progress)?;
            images
                .join()
                .unwrap_or_else(|_| bail!("the thread that imports images panicked"))?;
            progress.step("containerd has the images");
            self.start_node_components(first)
        })?;
        progress.step(&format!(
            "node {} is Ready and services answer; KUBECONFIG={}, node {}",
            first.name(),
            self.kubeconfig().display(),
            facts.link.node()
        ));
        alive(first)
    }

    fn start_control_plane(&self, progress: &Progress) -> Result<()> {
        self.first.ready(Component::ApiServer, || {
            Ok(self.first.node.listens(component::API_PORT)
                && self.kubectl(&["get", "--raw", "/readyz"]).is_ok())
        })?;
        progress.step("the API server is ready");
        self.start(Component::ControllerManager)?;
        self.start(Component::Scheduler)
    }

    fn start_node_components(&self, member: &Member) -> Result<()> {
        member.start(Component::Kubelet)?;
        member.start(Component::KubeProxy)?;
        member.ready(Component::Kubelet, || self.node_is_ready(member))?;
        self.first.ready(Component::ControllerManager, || {
            Ok(self.kubectl(&["get", "serviceaccount", "default"]).is_ok())
        })?;
        let service = format!("https://{}:443", crate::node::API_SERVICE);
        let ask = ["kubectl", "--server", &service, "get", "--raw", "/livez"];
        member.ready(Component::KubeProxy, || Ok(member.run(&ask).is_ok()))
    }

    /// Whether the running kubelet has reported ready, and the controller manager has removed the taint that keeps
    /// pods off a new node. The status of an earlier kubelet remains for a while after its death.
    fn node_is_ready(&self, member: &Member) -> Result<bool> {
        let record = member.state.pid_file(Component::Kubelet);
        let started = output(
            Command::new("date")
                .args(["-u", "+%FT%TZ", "-r"])
                .arg(&record),
        )?;
        let ready = "{.status.conditions[?(@.type==\"Ready\")]";
        let query =
            format!("jsonpath={ready}.status}}/{{.spec.taints}}/{ready}.lastHeartbeatTime}}");
        let answer = self
            .kubectl(&["get", "node", member.name(), "-o", &query])
            .unwrap_or_default();
        Ok(answer
            .strip_prefix("True//")
            .is_some_and(|heartbeat| heartbeat >= started.trim()))
    }
}

impl Member {
    fn import_missing(&self, archives: &[PathBuf]) -> Result<()> {
        let socket = "run/containerd/containerd.sock";
        self.ready(Component::Containerd, || {
            let root = self.node.root().context("the node ended")?;
            Ok(std::os::unix::net::UnixStream::connect(root.join(socket)).is_ok())
        })?;
        for archive in archives {
            self.state
                .once_per_image(archive, || self.import_image(archive))?;
        }
        Ok(())
    }

    /// Copies the images that were imported after the other node was created.
    fn copy_missing_images(&self, other: &Self) -> Result<()> {
        let has = self.images()?;
        let images = other.images()?;
        let missing = images
            .iter()
            .filter(|image| !has.contains(image) && !image.contains("sha256:"));
        for image in missing {
            let mut export = other
                .command("ctr")?
                .args(["images", "export", "-", image])
                .stdout(Stdio::piped())
                .spawn()
                .context("start ctr")?;
            let archive = export.stdout.take().context("ctr has no stdout")?;
            let imported = self.import(image, archive.into());
            let exported = export.wait().context("wait for ctr")?;
            imported?;
            ensure!(exported.success(), "export {image}: {exported}");
        }
        Ok(())
    }

    /// Waits until a component does its work; its death ends the wait with the end of its log.
    fn ready(&self, component: Component, mut works: impl FnMut() -> Result<bool>) -> Result<()> {
        wait_until(LIMIT, &format!("{component} to work"), || {
            self.has_not_ended(component)?;
            works()
        })
    }

    fn has_not_ended(&self, component: Component) -> Result<()> {
        if self.runs(component) {
            return Ok(());
        }
        let log = self.log_file(component);
        bail!(
            "{component} of node {} ended; the end of {}:\n{}",
            self.name(),
            log.display(),
            tail(&log)
        )
    }
}

/// Whether all started components still run.
fn alive(member: &Member) -> Result<()> {
    let mut components = member.components().iter();
    components.try_for_each(|component| member.has_not_ended(*component))
}
