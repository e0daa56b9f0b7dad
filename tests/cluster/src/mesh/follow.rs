//! The states of pods in the mesh from the API server and the node, with the times of their events.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs,
    io::BufReader,
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result};
use serde_json::{Deserializer, Value};

use super::{LIMIT, NAMESPACE};
use crate::Cluster;

/// The directory of containerd with the configuration of every running container.
const BUNDLES: &str = "run/containerd/io.containerd.runtime.v2.task/k8s.io";

/// A watch on objects of the mesh, by kubectl. It ends on drop.
#[derive(Debug)]
pub(super) struct Watch {
    kubectl: Child,
    seen: Receiver<(SystemTime, Value)>,
}

impl Watch {
    /// Returns when no later event can be missed: the peer's pod is always listed first.
    pub(super) fn start(cluster: &Cluster) -> Result<Self> {
        let watch = Self::follow(cluster, "pods")?;
        watch.until(LIMIT, "a pod in the mesh", |_| true)?;
        Ok(watch)
    }

    /// All objects of a kind: the existing ones, and their changes.
    pub(super) fn follow(cluster: &Cluster, kind: &str) -> Result<Self> {
        let mut kubectl = cluster
            .kubectl_command()
            .args(["-n", NAMESPACE, "get", kind, "--watch", "-o", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .context("start kubectl get --watch")?;
        let stdout = kubectl.stdout.take().context("kubectl has no stdout")?;
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || {
            let pods = Deserializer::from_reader(BufReader::new(stdout)).into_iter();
            for pod in pods.map_while(Result::ok) {
                if sender.send((SystemTime::now(), pod)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { kubectl, seen })
    }

    /// The next matching state of an object, and the time of its event.
    pub(super) fn until(
        &self,
        limit: Duration,
        what: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<(SystemTime, Value)> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let wait_line = self
                .seen
                .recv_timeout(left)
                .with_context(|| format!("waited {} s for {what}", limit.as_secs()))?;
            if fits(&wait_line.1) {
                return Ok(wait_line);
            }
        }
    }
}

impl Watch {
    /// The next state of any object; None within this time.
    pub(super) fn next_within(&self, limit: Duration) -> Option<Value> {
        self.seen
            .recv_timeout(limit)
            .ok()
            .map(|(_at, object)| object)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Either call fails only if it has exited already.
        self.kubectl.kill().ok();
        self.kubectl.wait().ok();
    }
}

/// Finds the network namespace of a pod; reads every sandbox once.
#[derive(Debug, Default)]
pub(super) struct Sandboxes {
    seen: HashSet<OsString>,
}

impl Sandboxes {
    /// The namespace as a path inside the node, once containerd has created the pod's sandbox.
    pub(super) fn network(&mut self, cluster: &Cluster, pod: &str) -> Option<String> {
        let bundles = fs::read_dir(cluster.node_root()?.join(BUNDLES)).ok()?;
        bundles.flatten().find_map(|bundle| {
            if self.seen.contains(&bundle.file_name()) {
                return None;
            }
            // The file does not exist at once.
            let config = fs::read(bundle.path().join("config.json")).ok()?;
            let config: Value = serde_json::from_slice(&config).ok()?;
            self.seen.insert(bundle.file_name());
            let annotations = &config["annotations"];
            let ours = annotations["io.kubernetes.cri.container-type"] == "sandbox"
                && annotations["io.kubernetes.cri.sandbox-name"] == pod;
            let namespaces = config["linux"]["namespaces"].as_array()?;
            let network = namespaces.iter().find(|one| one["type"] == "network")?;
            ours.then(|| network["path"].as_str().map(str::to_owned))?
        })
    }
}
