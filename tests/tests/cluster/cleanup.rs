//! Leaving a cluster: the DaemonSet's agents remove everything from their nodes, and are ready when that is done.

use std::{
    path::Path,
    process::{Command, Output},
};

use usher_tests::synthetic::program;

use crate::lab::{Lab, USHER, alone, until};

/// The timeout of a command that succeeds.
const PATIENCE: &str = "180s";
/// That of one that fails, which takes this time.
const FAILS_WITHIN: &str = "15s";
/// The new agent of a slow node has not tried to clean it after the first of them.
const TRIES: usize = 10;
const REASON: &str = "something is left there";

#[test]
fn leaves_nothing_and_is_idempotent() {
    let Some(lab) = alone() else { return };
    assert!(lab.announces());
    assert!(has_run_dir(&lab));
    for _ in 0..2 {
        let left = clean_up(&lab, "usher", PATIENCE);
        assert!(left.status.success(), "{left:?}");
        assert!(!lab.announces());
        assert!(!has_run_dir(&lab));
        let root = lab.cluster.node_root().unwrap();
        assert!(!root.join("opt/cni/bin/usher-cni").exists());
    }
    lab.remove_agent();
    assert!(!has_run_dir(&lab));
    let left = clean_up(&lab, "usher", PATIENCE);
    assert!(left.status.success(), "{left:?}");
}

#[test]
fn node_that_fails_to_clean_up_is_named() {
    let Some(lab) = alone() else { return };
    let root = lab.cluster.node_root().unwrap();
    let notes = root.join("run/usher/notes");
    std::fs::write(&notes, "not usher's").unwrap();
    let stdout_of = |left: &Output| String::from_utf8_lossy(&left.stdout).into_owned();
    let mut left = clean_up(&lab, "usher", FAILS_WITHIN);
    for _ in 1..TRIES {
        if left.status.success() || stdout_of(&left).contains(REASON) {
            break;
        }
        left = clean_up(&lab, "usher", FAILS_WITHIN);
    }
    let stdout = stdout_of(&left);
    std::fs::remove_file(&notes).unwrap();
    assert_eq!(left.status.code(), Some(1), "{left:?}");
    assert!(stdout.contains(lab.cluster.node_name()), "{stdout}");
    assert!(stdout.contains(REASON), "{stdout}");
    // The agent continues to retry.
    until("the node to be clean", || {
        (!has_run_dir(&lab)).then_some(())
    });
    // A node that was requested to clean up stays in that state.
    lab.remove_agent();
}

/// Runs the command that the chart runs before an uninstall.
fn clean_up(lab: &Lab, daemonset: &str, timeout: &str) -> Output {
    let agent = program::beside_this("usher-agent").expect("usher-agent is built");
    Command::new(agent)
        .args([
            "cleanup-cluster",
            "--namespace",
            USHER,
            "--timeout",
            timeout,
        ])
        .args(["--daemonset", daemonset])
        .env_clear()
        .env("KUBECONFIG", lab.cluster.kubeconfig())
        .output()
        .unwrap()
}

fn has_run_dir(lab: &Lab) -> bool {
    let root = lab.cluster.node_root().unwrap();
    Path::exists(&root.join("run/usher"))
}
