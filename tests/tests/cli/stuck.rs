//! `usher stuck`, and pods that are gone.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::json;
use usher_tests::privilege;
use usher_tests::synthetic::{Behaviour, ContainerSpec, Node, PodSpec, catalog::istio};
use usher_tests::wait::{found_within, patience};

use crate::{golden, run};

/// UIDs of two pods with the same name.
const OLDER: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";
const NEWER: &str = "1d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b12";
const SHORTER: &str = "2d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b13";

#[test]
fn stuck_pods_are_listed_with_their_cause() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    node.annotate(&[("usher.dev/mode", "observe")]);
    node.kubelet().lag(Duration::ZERO);
    let none = run(&node, &["stuck"]);
    assert_eq!(
        (none.code, &none.stdout[..]),
        (Some(0), "no stuck pods\n"),
        "{none:?}"
    );
    let with_istio = |name: &str, app| PodSpec::new(name).with(app).with(istio::v1_26().container);
    let brief = ContainerSpec::brief_app("app", Duration::ZERO, 0);
    let stuck = node.run(&with_istio("stuck", brief));
    let running = node.run(&with_istio("running", ContainerSpec::app("app")));
    stuck.ended("app");
    let ran = found_within(patience(), "a stuck pod", || {
        let ran = run(&node, &["stuck"]);
        (ran.code != Some(0)).then_some(ran)
    });
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(!ran.stdout.contains(&running.name()), "{ran:?}");
    golden("stuck.txt", &ran.stdout, &[(&stuck.name(), "POD")]);
    let json = run(&node, &["stuck", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["kind"], "StuckPods");
    let item = &json["items"][0];
    assert_eq!(item["uid"], stuck.uid());
    assert_eq!(item["containers"][0], "istio-proxy");
    assert_eq!(item["cause"]["id"], "sidecar-stays");
    assert!(item["forMs"].as_u64() > Some(5_000), "{item}");
    let namespace = stuck.name();
    let namespace = namespace.split_once('/').unwrap().0;
    assert_eq!(run(&node, &["stuck", "-n", namespace]).code, Some(1));
    assert_eq!(run(&node, &["stuck", "-n", "another"]).code, Some(0));
    assert_eq!(run(&node, &["stuck", "running"]).code, Some(0));
    // A sysdump of one pod lists the others, and cannot explain them.
    let dump = node.run_dir().with_file_name("one.tar.gz");
    let dump = dump.display().to_string();
    let dumped = run(&node, &["sysdump", "--pod", &running.name(), "-w", &dump]);
    assert_eq!(dumped.code, Some(0), "{dumped:?}");
    let ran = run(&node, &["stuck", "--file", &dump]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains(&stuck.name()), "{ran:?}");
    // The namespace completes the name of a pod.
    let name = stuck.name();
    let name = name.split_once('/').unwrap().1;
    assert_eq!(
        run(&node, &["explain", "-n", namespace, name]).code,
        Some(1)
    );
    assert_eq!(
        run(&node, &["explain", "-n", "another", name]).code,
        Some(4)
    );
}

#[test]
fn without_agent_and_kubelet_it_is_unknown_whether_a_pod_is_stuck() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    node.kubelet().behave(Behaviour::Status(503));
    let ran = run(&node, &["stuck"]);
    assert_eq!((ran.code, &ran.stdout[..]), (Some(5), ""), "{ran:?}");
    let expected = "cannot find stuck pods without the kubelet";
    assert!(ran.stderr.contains(expected), "{ran:?}");
}

/// The timeline's file keeps the decisions about a pod for longer than the kubelet keeps the pod.
#[test]
fn a_pod_that_is_gone_is_explained_by_the_decisions_about_it() {
    let Some(node) = privilege::granted().then(Node::new) else {
        return;
    };
    let pod = node.run(&PodSpec::job("present"));
    let present = pod.name();
    // A part of the name of the present pod.
    let shorter = &present[..present.len() - 1];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let line = |ago: u64, uid: &str, pod: &str, decision: &str| {
        let at_ms = u64::try_from(now.as_millis()).unwrap() - ago * 1000;
        json!({"at_ms": at_ms, "uid": uid, "pod": pod, "decision": decision, "reason": "a reason"})
            .to_string()
            + "\n"
    };
    let lines = [
        line(7200, OLDER, "shop/gone-x7k2p", "would-quit"),
        line(300, NEWER, "shop/gone-x7k2p", "waiting"),
        line(200, NEWER, "shop/gone-x7k2p", "quit-accepted"),
        line(100, SHORTER, shorter, "quit-accepted"),
    ];
    fs::write(node.run_dir().join("timeline.jsonl"), lines.concat()).unwrap();
    for given in ["shop/gone-x7k2p", "gone", NEWER] {
        let ran = run(&node, &["explain", given]);
        assert_eq!(ran.code, Some(0), "{given}: {ran:?}");
        let start = "shop/gone-x7k2p: the pod is gone; the last decision about it, 3 min";
        assert!(ran.stdout.starts_with(start), "{given}: {ran:?}");
        assert!(ran.stdout.contains("waiting"), "{given}: {ran:?}");
        // This decision belongs to an older pod with the same name.
        assert!(!ran.stdout.contains("would-quit"), "{given}: {ran:?}");
    }
    assert_eq!(run(&node, &["explain", "absent"]).code, Some(4));
    let ran = run(&node, &["explain", shorter]);
    let start = format!("{shorter}: the pod is gone");
    assert!(ran.stdout.starts_with(&start), "{ran:?}");
    assert!(!run(&node, &["explain", &present]).stdout.contains("gone"));
    let watched = run(
        &node,
        &["watch", "--since", "4m", "--count", "1", "--no-headers"],
    );
    assert!(watched.stdout.contains("quit-accepted"), "{watched:?}");
}
