//! Events on pods.

use serde_json::json;
use usher_tests::synthetic::PodSpec;

use crate::{enforcing, received_only, setup, wait_for, wait_mode, with};

#[test]
fn finished_job_gets_one_event() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    let pod = node.run(&PodSpec::job("report"));
    pod.finish("app", 0);
    agent.wait_for("sidecar-ended", &pod.name());
    let event = wait_for(&server, "SidecarQuit");
    let (namespace, name) = pod.name().split_once('/').map_or_else(
        || panic!("a pod has a namespace"),
        |(one, other)| (one.to_owned(), other.to_owned()),
    );
    let regarding = json!({
        "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": pod.uid(),
        "fieldPath": "spec.containers{istio-proxy}",
    });
    assert_eq!(event["regarding"], regarding);
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["action"], "Quit");
    assert_eq!(event["reportingController"], "usher.dev/agent");
    assert_eq!(event["reportingInstance"], "synthetic-node");
    let note = event["note"].as_str().unwrap();
    let begin = "sidecar istio-proxy ended with exit code 0, ";
    assert!(note.starts_with(begin), "{note}");
    let end = " ms after the pod's last app: POST :15020/quitquitquit was accepted";
    assert!(note.ends_with(end), "{note}");
    // A second Event would come after all Events of the first pod.
    let other = node.run(&PodSpec::job("other"));
    other.finish("app", 0);
    server.wait_events("two of them", |events| {
        (with(events, "SidecarQuit").len() == 2).then_some(())
    });
    assert_eq!(server.events().len(), 2);
    agent.wait_metric("usher_events_queued", "", |queued| queued < 0.5);
    let sent = agent.metric("usher_events_total", "result=\"sent\"");
    assert!((sent - 2.0).abs() < 0.1, "{sent}");
    received_only(&server, &[]);
}

#[test]
fn observed_then_enforced() {
    let Some((node, server, agent)) = setup(&[], &[]) else {
        return;
    };
    wait_mode(&agent, "observe");
    let pod = node.run(&PodSpec::job("stuck"));
    pod.finish("app", 0);
    let event = wait_for(&server, "WouldQuit");
    let note = event["note"].as_str().unwrap();
    let command = "kubectl annotate node synthetic-node usher.dev/quit=enforce --overwrite";
    assert!(note.ends_with(command), "{note}");
    server.annotate(&[("usher.dev/quit", "enforce")]);
    wait_for(&server, "SidecarQuit");
    let changed = wait_for(&server, "ModeChanged");
    assert_eq!(
        changed["note"],
        "quit: enforce (was observe); hold: observe (was observe); linger: observe (was observe)"
    );
    received_only(&server, &[]);
}

#[test]
fn pod_owner_text_is_escaped() {
    let Some((node, server, _agent)) = enforcing() else {
        return;
    };
    let text = "\u{1b}[2J\u{202e}fasle\n";
    let _pod = node.run(&PodSpec::job("typo").annotation("usher.dev/quit", text));
    let event = wait_for(&server, "InvalidAnnotation");
    assert_eq!(event["type"], "Warning");
    let note = event["note"].as_str().unwrap();
    assert!(
        note.starts_with("usher.dev/quit (annotation of this pod) is"),
        "{note}"
    );
    assert!(note.chars().all(|c| !c.is_control() && c != '\u{202e}'));
    assert!(
        note.contains("fasle") && note.contains("\"true\" or \"false\""),
        "{note}"
    );
}

#[test]
fn opted_out_pod_gets_no_event() {
    let Some((node, server, agent)) = enforcing() else {
        return;
    };
    let out = node.run(&PodSpec::job("out").annotation("usher.dev/quit", "false"));
    out.finish("app", 0);
    agent.wait_for("skipped", &out.name());
    let last = node.run(&PodSpec::job("last"));
    last.finish("app", 0);
    wait_for(&server, "SidecarQuit");
    assert_eq!(server.events().len(), 1);
}
