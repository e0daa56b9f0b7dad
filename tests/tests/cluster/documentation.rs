//! The command blocks of the README and of the pages of tasks, as a user runs them. Where a page shows the output of a
//! command, it is compared.
//!
//! Placeholders of the pages (`NODE`, `AGENT`, `POD`) have the values of the cluster, and the namespace `shop` has the
//! pods that the pages name. A command that cannot run here is in [`NOT_HERE`].

mod page;
mod user;

use serde_json::{Value, json};
use usher_cluster::workload::{app_container, istio_proxy_container, pod};

use self::{
    page::{blocks, is_exception, pages},
    user::User,
};
use crate::lab::{self, Lab, until};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The namespaces and the pods that the pages name.
const SHOP: &str = "shop";
const BATCH: &str = "batch";
const PODS: [&str; 2] = ["report-x7k2p", "job-h2m9c"];
/// The pool of nodes that a page names.
const POOL: &str = "pool=batch";
/// Commands that cannot run here: their beginning, and the reason.
const NOT_HERE: [(&str, &str); 9] = [
    ("kind ", "the cluster of the tests is not one of kind"),
    ("cargo xtask image", "cargo xtask test builds the image"),
    ("kubectl create namespace usher", "usher is installed"),
    ("helm ", "the test of the chart installs it"),
    ("kubelet ", "the kubelet runs"),
    (
        "kubectl -n usher logs POD --previous",
        "the agent did not restart",
    ),
    (
        "kubectl -n usher get configmap usher ",
        "an installation without Helm has no ConfigMap by default",
    ),
    ("kubectl taint ", "the node has no taint"),
    ("usher sysdump ", "the container has no writable directory"),
];

/// The objects that the pages name. Removed on drop.
struct Stage<'lab>(&'lab Lab);

impl<'lab> Stage<'lab> {
    fn new(lab: &'lab Lab) -> Self {
        let stage = Self(lab);
        for namespace in [SHOP, BATCH] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace },
            });
            lab.cluster.apply(&namespace).unwrap();
        }
        for name in PODS {
            let containers = [
                app_container("app", &["--listen", "8080"]),
                istio_proxy_container(),
            ];
            lab.cluster
                .apply(&pod(name, SHOP, "Never", &containers))
                .unwrap();
        }
        let node = lab.cluster.node_name();
        lab.cluster.kubectl(&["label", "node", node, POOL]).unwrap();
        until("the pods of the pages to run", || {
            let pods = ["-n", SHOP, "get", "pods"];
            let pods = lab.cluster.kubectl_json(&pods).ok()?;
            let pods = pods["items"].as_array()?.clone();
            let runs = |pod: &Value| pod["status"]["phase"] == "Running";
            (pods.len() == PODS.len() && pods.iter().all(runs)).then_some(())
        });
        stage
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        let node = self.0.cluster.node_name();
        let key = POOL.split('=').next().unwrap_or_default();
        for args in [
            &["delete", "namespace", SHOP, BATCH, "--wait=false"][..],
            &["delete", "job", "hello", "--ignore-not-found"],
            &["label", "node", node, &format!("{key}-")],
        ] {
            lab::tidy(|| drop(self.0.cluster.kubectl(args)));
        }
    }
}

/// Needs no cluster. Each block has known commands, and each exception occurs.
#[test]
fn exceptions_occur_in_the_pages() {
    let commands: Vec<String> = pages()
        .iter()
        .flat_map(|page| blocks(page))
        .flat_map(|block| block.commands)
        .map(|shown| shown.command)
        .collect();
    for (beginning, reason) in NOT_HERE {
        let occurs = commands
            .iter()
            .any(|command| command.starts_with(beginning));
        assert!(occurs, "{beginning:?} ({reason})");
    }
    let executed = commands
        .iter()
        .filter(|command| !is_exception(command))
        .count();
    assert!(executed >= 60, "{executed} of {}", commands.len());
}

#[test]
fn command_blocks_of_the_pages_work() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let _stage = Stage::new(&lab);
    let user = User::new(&lab);
    let wrong: Vec<String> = pages().iter().flat_map(|page| user.follow(page)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
