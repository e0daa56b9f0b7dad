//! The removal without Helm's hooks, as by `kubectl delete` and GitOps tools.

use std::collections::BTreeSet;

use super::{
    load::{self, Like},
    release::Release,
    remains,
};
use crate::lab::{self, Lab, MANIFEST, USHER, until};

/// The mount point of the agents' pods, which only a reboot or an operator removes. It is empty.
const MOUNT_POINT: &str = "file /run/usher";

#[test]
fn kubectl_delete_leaves_nothing_and_pods_start() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let delete = ["delete", "-f", MANIFEST, "--wait"];
    lab.cluster.kubectl(&delete).unwrap();
    nothing_is_left(&lab);
    starts(&lab, "deleted");
}

/// As after `helm uninstall --no-hooks`, or a prune of a GitOps tool that renders the chart.
#[test]
fn deletion_of_a_release_without_hooks_leaves_nothing() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let release = Release::install(&lab, &["mode=enforce"]);
    until("the plugin's entry", || lab.announces().then_some(()));
    release.plain(&["uninstall", USHER, "--no-hooks", "--wait"]);
    nothing_is_left(&lab);
    starts(&lab, "pruned");
}

fn nothing_is_left(lab: &Lab) {
    until("the end of the agent", || {
        lab.agent_pids().is_empty().then_some(())
    });
    let mount_point = BTreeSet::from([MOUNT_POINT.to_owned()]);
    // The pod's object is deleted some time after its process has ended.
    until("the node to be clean", || {
        let left: BTreeSet<String> = remains::of_usher(&lab.cluster).into_iter().collect();
        left.is_subset(&mount_point).then_some(())
    });
    let root = lab.cluster.node_root().unwrap();
    if let Ok(mut entries) = std::fs::read_dir(root.join("run/usher")) {
        assert!(entries.next().is_none(), "/run/usher is not empty");
    }
}

/// A new pod then starts as on a node without usher.
fn starts(lab: &'static Lab, name: &str) {
    let namespace = lab.namespace(name);
    load::create(&lab.cluster, &namespace, Like::Plain);
    load::all_complete(lab, &namespace, 1);
}
