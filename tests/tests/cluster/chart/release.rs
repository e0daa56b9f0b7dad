//! A Helm release of the chart, in a namespace that is created as documented.

use std::{panic::AssertUnwindSafe, process::Command, thread};

use usher_cluster::{Cluster, programs, progress::output};

use crate::lab::{Lab, MANIFEST, USHER, until};

pub(super) const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
/// The image of this tree, and the same under another tag for an upgrade.
pub(super) const TAG: &str = "dev";
pub(super) const NEXT_TAG: &str = "next";
const IMAGE: &str = "usher.test/usher-agent";
const POD_SECURITY: [&str; 3] = ["enforce", "audit", "warn"];

/// Removed with its namespace on drop.
pub(super) struct Release {
    lab: &'static Lab,
}

impl Release {
    /// Installs the chart where nothing of usher exists except the leftovers of an earlier agent. The Node has no
    /// annotations.
    pub(super) fn install(lab: &'static Lab, values: &[&str]) -> Self {
        let release = Self::prepare(lab);
        release.helm(&["install", USHER, CHART, "--wait"], values);
        release
    }

    /// The same, without a wait for the agent.
    pub(super) fn begin(lab: &'static Lab, values: &[&str]) -> Self {
        let release = Self::prepare(lab);
        release.helm(&["install", USHER, CHART], values);
        release
    }

    /// Installs values with which Helm fails. Returns its error.
    pub(super) fn rejected(lab: &'static Lab, values: &[&str]) -> (Self, String) {
        let release = Self::prepare(lab);
        let installed = release.run(&["install", USHER, CHART, "--wait"], values, "60s");
        (release, installed.unwrap_err())
    }

    fn prepare(lab: &'static Lab) -> Self {
        let cluster = &lab.cluster;
        let delete = ["delete", "-f", MANIFEST, "--ignore-not-found", "--wait"];
        cluster.kubectl(&delete).unwrap();
        until("the end of the agent", || {
            lab.agent_pids().is_empty().then_some(())
        });
        let node = ["annotate", "node", cluster.node_name(), "usher.dev/mode-"];
        cluster.kubectl(&node).unwrap();
        cluster.kubectl(&["create", "namespace", USHER]).unwrap();
        let release = Self { lab };
        for mode in POD_SECURITY {
            let label = format!("pod-security.kubernetes.io/{mode}=privileged");
            let label = ["label", "namespace", USHER, &label];
            cluster.kubectl(&label).unwrap();
        }
        release
    }

    /// Helm's output, with the image and more values.
    pub(super) fn helm(&self, args: &[&str], values: &[&str]) -> String {
        self.run(args, values, "180s").unwrap()
    }

    fn run(&self, args: &[&str], values: &[&str], timeout: &str) -> Result<String, String> {
        let image = [
            format!("image.repository={IMAGE}"),
            format!("image.tag={TAG}"),
        ];
        let image: Vec<&str> = image.iter().map(String::as_str).collect();
        let values = [&image, values].concat();
        let sets = values.iter().flat_map(|value| ["--set", value]);
        let mut helm = helm(&self.lab.cluster);
        helm.args(args).args(["--timeout", timeout]).args(sets);
        output(&mut helm).map_err(|error| format!("{error:#}"))
    }

    /// The same for commands that accept no values.
    pub(super) fn plain(&self, args: &[&str]) -> String {
        let mut helm = helm(&self.lab.cluster);
        output(helm.args(args).args(["--timeout", "180s"])).unwrap()
    }

    /// The image of the DaemonSet.
    pub(super) fn image(&self) -> String {
        let get = ["-n", USHER, "get", "daemonset", USHER];
        let found = self.lab.cluster.kubectl_json(&get).unwrap();
        let image = &found["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap().to_owned()
    }

    fn remove(&self) {
        let mut uninstall = helm(&self.lab.cluster);
        uninstall.args(["uninstall", USHER, "--no-hooks", "--wait"]);
        output(uninstall.args(["--ignore-not-found", "--timeout", "180s"])).unwrap();
        let delete = ["delete", "namespace", USHER, "--wait", "--timeout=180s"];
        self.lab.cluster.kubectl(&delete).unwrap();
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if thread::panicking() {
            // A second panic would hide the first.
            drop(std::panic::catch_unwind(AssertUnwindSafe(|| self.remove())));
        } else {
            self.remove();
        }
    }
}

/// A Helm command in usher's namespace.
pub(super) fn helm(cluster: &Cluster) -> Command {
    let mut helm = Command::new(programs::helm().unwrap());
    helm.env("KUBECONFIG", cluster.kubeconfig())
        .env("HELM_NAMESPACE", USHER);
    helm
}

/// Gives the agent's image a second tag, which then exists on the node.
pub(super) fn tag_next(cluster: &Cluster) {
    let (image, next) = (format!("{IMAGE}:{TAG}"), format!("{IMAGE}:{NEXT_TAG}"));
    let tag = [
        "ctr", "-n", "k8s.io", "images", "tag", "--force", &image, &next,
    ];
    cluster.in_node(&tag).unwrap();
}
