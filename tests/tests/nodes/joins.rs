//! A node that joins a cluster with the mode in its configuration, as behind an autoscaler.

use std::{env, panic::AssertUnwindSafe, process::Command, thread};

use usher_cluster::{Cluster, Config, programs, progress::output};

use crate::rig::{CLUSTER, MANIFEST, Rig, USHER, decided, has_plugin, until};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/chart");
/// The image of this tree is on the first node, and a node that joins gets all images of the first.
const VALUES: [&str; 3] = [
    "image.repository=usher.test/usher-agent",
    "image.tag=dev",
    "mode=enforce",
];

/// A release in place of the plain manifests. On drop it is removed, and the node that joined with it.
struct Release<'rig> {
    rig: &'rig Rig,
}

impl<'rig> Release<'rig> {
    fn install(rig: &'rig Rig) -> Self {
        let delete = ["delete", "-f", MANIFEST, "--wait"];
        rig.cluster.kubectl(&delete).unwrap();
        until("the end of the agents", || {
            let mut nodes = rig.nodes.iter();
            nodes
                .all(|node| agents(&rig.cluster, node.name()) == 0 && !has_plugin(node))
                .then_some(())
        });
        let release = Self { rig };
        let sets = VALUES.iter().flat_map(|value| ["--set", value]);
        output(
            release
                .helm()
                .args(["install", USHER, CHART, "--create-namespace", "--wait"])
                .args(["--timeout", "180s"])
                .args(sets),
        )
        .unwrap();
        release
    }

    fn helm(&self) -> Command {
        let mut helm = Command::new(programs::helm().unwrap());
        helm.env("KUBECONFIG", self.rig.cluster.kubeconfig())
            .env("HELM_NAMESPACE", USHER);
        helm
    }

    fn remove(&self) {
        let mut uninstall = self.helm();
        uninstall.args(["uninstall", USHER, "--no-hooks", "--wait"]);
        let uninstalled = output(uninstall.args(["--ignore-not-found", "--timeout", "180s"]));
        let cluster = &self.rig.cluster;
        let delete = ["delete", "namespace", USHER, "--wait", "--timeout=180s"];
        let deleted = cluster.kubectl(&delete);
        // In any case: the other tests expect the usual nodes.
        if cluster.members().unwrap().len() > self.rig.nodes.len() {
            cluster.remove_last_node().unwrap();
        }
        uninstalled.unwrap();
        deleted.unwrap();
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // A second panic would hide the first.
            drop(std::panic::catch_unwind(AssertUnwindSafe(|| self.remove())));
        } else {
            self.remove();
        }
    }
}

#[test]
fn node_that_joins_later_enforces_by_itself() {
    let Some(rig) = Rig::open() else {
        return;
    };
    let release = Release::install(&rig);
    let number = u8::try_from(rig.nodes.len()).unwrap() + 1;
    let config = Config {
        nodes: Some(number),
        ..Config::from_env(&env::var(CLUSTER).unwrap()).unwrap()
    };
    Cluster::with(config).unwrap().up().unwrap();
    let joined = rig.cluster.member(number).unwrap();
    let get = ["get", "node", joined.name()];
    let object = rig.cluster.kubectl_json(&get).unwrap();
    let metadata = object["metadata"].to_string();
    assert!(!metadata.contains("usher.dev/"), "{metadata}");

    rig.app_ends(&joined, "joined");
    decided(&joined, "joined", "sidecar-ended");
    rig.completes("joined");
    until("the CNI plugin", || has_plugin(&joined).then_some(()));
    drop(release);
    // Nothing of the node is left, so that another one can join.
    assert_eq!(rig.cluster.members().unwrap().len(), rig.nodes.len());
    assert!(rig.cluster.kubectl(&get).is_err(), "its object is deleted");
}

/// The number of agents' pods on a node.
fn agents(cluster: &Cluster, node: &str) -> usize {
    let field = format!("--field-selector=spec.nodeName={node}");
    let get = ["-n", USHER, "get", "pods", &field, "-o", "name"];
    cluster.kubectl(&get).unwrap().lines().count()
}
