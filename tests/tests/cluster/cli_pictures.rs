//! The output of `usher` on a terminal about a node and a stuck Job, for the pictures of the documentation.
//!
//! It is real: the agent's image, Istio's proxy, a Job with an exited app. The node is in observe mode, so the proxy
//! stays and there is a finding.

use std::{fs, path::Path};

use usher_tests::wait::found_within;

use crate::{
    lab::{self, Lab, USHER},
    workload::meshed_job,
};

/// The directory of the texts that `cargo xtask pictures` draws.
const FOLDER: &str = "USHER_TEST_PICTURES";

#[test]
fn node_and_stuck_job() {
    let Some(lab) = lab::alone() else {
        return;
    };
    lab.mode("observe");
    let namespace = lab.namespace("shop");
    let job = meshed_job(&namespace, "Never", &["--run-for", "500ms"]);
    lab.cluster.apply(&job).unwrap();
    let pod = lab::until("the Job's pod", || {
        let get = ["-n", &namespace, "get", "pods", "-o", "name"];
        let names = lab.cluster.kubectl(&get).ok()?;
        Some(names.trim().strip_prefix("pod/")?.to_owned())
    });
    lab.decided(&namespace, "would-quit");
    let status = printed(&lab, &["status"]);
    let name = format!("{}/{pod}", &*namespace);
    // A moment later it is stuck, and not only finished.
    let explained = lab::until("a finding", || {
        let stdout = printed(&lab, &["explain", &name]);
        stdout.contains("sidecar-stays").then_some(stdout)
    });
    assert!(status.contains(lab.cluster.node_name()), "{status}");
    assert!(explained.contains("istio-proxy"), "{explained}");
    if let Some(folder) = std::env::var_os(FOLDER) {
        for (name, text) in [("status", status), ("explain", explained)] {
            fs::write(Path::new(&folder).join(name).with_extension("ansi"), text).unwrap();
        }
    }
}

/// The command as a user types it, and its output. The exit code does not matter: it is 0 for a node in observe mode, and a
/// stuck Job is a finding.
fn printed(lab: &Lab, arguments: &[&str]) -> String {
    let exec = ["-n", USHER, "exec", "ds/usher", "--", "usher"];
    let colours = ["--color", "always"];
    let stdout = found_within(lab::PATIENCE, "an answer", || {
        let mut kubectl = lab.cluster.kubectl_command();
        let ran = kubectl.args(exec).args(arguments).args(colours).output();
        let stdout = String::from_utf8(ran.unwrap().stdout).unwrap();
        (!stdout.is_empty()).then_some(stdout)
    });
    let typed = [&exec[..], arguments].concat().join(" ");
    format!("$ kubectl {typed}\n{stdout}")
}
