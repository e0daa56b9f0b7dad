//! The check before an installation, and `helm test` after it.

use super::release::Release;
use crate::lab::{self, Lab, USHER, until};

const PREFLIGHT: &str = "preflight.enabled=true";

#[test]
fn preflight_and_helm_test_pass_on_this_node() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let release = Release::install(&lab, &[PREFLIGHT, "mode=enforce"]);
    assert_eq!(jobs(&lab), "", "the hook deletes what succeeded");
    release.plain(&["test", USHER]);
    let log = log(&lab, "test");
    assert!(log.contains("the agent"), "{log}");
    // Again, with an agent on the node.
    release.helm(
        &["upgrade", USHER, super::release::CHART, "--wait"],
        &[PREFLIGHT],
    );
}

#[test]
fn directory_of_another_platform_stops_the_installation() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let wrong = "cni.binDir=/var/lib/elsewhere/bin";
    let (_release, error) = Release::rejected(&lab, &[PREFLIGHT, wrong, "mode=enforce"]);
    assert!(error.contains("usher-preflight"), "{error}");
    let daemonsets = ["-n", USHER, "get", "daemonsets", "-o", "name"];
    assert_eq!(lab.cluster.kubectl(&daemonsets).unwrap(), "");
    let log = log(&lab, "preflight");
    assert!(
        log.contains("the runtime has its plugins elsewhere") && log.contains("cni.binDir"),
        "{log}"
    );
}

/// An agent with that directory would stop every pod of the node, and is not ready instead.
#[test]
fn agent_with_a_directory_of_another_platform_is_not_ready() {
    let Some(lab) = lab::alone() else {
        return;
    };
    let wrong = "cni.binDir=/var/lib/elsewhere/bin";
    let _release = Release::begin(&lab, &[wrong, "mode=enforce"]);
    let error = until("the failure of the installation", || {
        let lines = lab.log();
        let failed = lines
            .iter()
            .rfind(|line| line.text("message") == "could not install the CNI plugin; retrying");
        Some(failed?.text("error").to_owned())
    });
    assert!(error.contains("cni.binDir"), "{error}");
    assert!(!lab.announces());
    let rollout = ["rollout", "status", "daemonset/usher", "--timeout=10s"];
    let is_ready = lab
        .cluster
        .kubectl(&[&["-n", USHER], &rollout[..]].concat());
    assert!(is_ready.is_err(), "{is_ready:?}");
}

fn jobs(lab: &Lab) -> String {
    let get = ["-n", USHER, "get", "jobs", "-o", "name"];
    lab.cluster.kubectl(&get).unwrap()
}

fn log(lab: &Lab, component: &str) -> String {
    let label = format!("app.kubernetes.io/component={component}");
    let logs = ["-n", USHER, "logs", "--tail=-1", "-l", &label];
    lab.cluster.kubectl(&logs).unwrap()
}
