//! The parts of an explanation that do not depend on findings.

use serde_json::json;
use usher_core::{admin::Modes, recipe::Version};

use super::{
    Detail, Mode, Scenario, healthy,
    pods::{app, job, known},
};
use crate::explain::{Facts, OnTerm, needs_kubelet_version};

#[test]
fn pod_is_named_by_namespace_and_name() {
    assert_eq!(healthy().explain().pod(), "shop/report");
}

#[test]
fn container_states_are_formatted() {
    let state = |scenario: &Scenario| scenario.explain().containers[0].state.clone();
    let waiting = |reason: &str| {
        let mut scenario = healthy();
        scenario.pod["status"]["containerStatuses"][0]["state"] =
            json!({"waiting": {"reason": reason}});
        scenario
    };
    for (scenario, expected) in [
        (waiting(""), "waiting"),
        (waiting("CrashLoopBackOff"), "waiting: CrashLoopBackOff"),
        (healthy(), "running for 1 min 0 s"),
        (healthy().unready("app"), "running for 1 min 0 s, not ready"),
        (
            healthy().ended("app", 60, 7, 3),
            "ended with exit code 3, 7 s ago",
        ),
    ] {
        assert_eq!(state(&scenario), expected);
    }
}

#[test]
fn modes_name_their_source() {
    let mut scenario = healthy();
    scenario.seen.modes = Some(Modes {
        quit: Mode::Enforce,
        quit_source: Some("mode in the configuration".to_owned()),
        hold: Mode::Observe,
        hold_source: Some("annotation usher.dev/hold of the Node".to_owned()),
        linger: Mode::Observe,
        linger_source: Some("default".to_owned()),
        ..known()
    });
    let node = [
        "quit: enforce (mode in the configuration)",
        "hold: observe (annotation usher.dev/hold of the Node)",
    ];
    assert_eq!(scenario.explain().modes, node);
    let opted = scenario
        .annotation("usher.dev/quit", "false")
        .annotation("usher.dev/hold", "false");
    assert_eq!(
        opted.explain().modes,
        [
            node[0],
            node[1],
            "quit: false (metadata.annotations[usher.dev/quit] = \"false\")",
            "hold: false (metadata.annotations[usher.dev/hold] = \"false\")",
        ]
    );
    let lingers = opted.annotation("usher.dev/linger", "20s");
    let modes = lingers.explain().modes;
    assert_eq!(
        modes[4],
        "linger: observe (default); for at most 20s (metadata.annotations[usher.dev/linger] = \"20s\")"
    );
    let mut unknown = lingers;
    unknown.seen.modes = None;
    assert_eq!(
        unknown.explain().modes,
        ["unknown: no agent replies, and its run directory has no record"]
    );
    unknown.seen.agent = true;
    assert_eq!(
        unknown.explain().modes,
        ["unknown: the agent does not report them"]
    );
}

#[test]
fn unread_node_is_named_with_the_modes() {
    let mut scenario = healthy();
    scenario.seen.modes = Some(Modes {
        quit_source: Some("default".to_owned()),
        hold_source: Some("default".to_owned()),
        ..Modes::default()
    });
    assert_eq!(
        scenario.explain().modes,
        [
            "quit: observe (default)",
            "hold: observe (default)",
            "the agent has not read the Node since it started"
        ]
    );
}

#[test]
fn unavailable_sources_are_named() {
    let [processes, sockets, version] = [
        "processes of its containers",
        "sockets of its network namespace",
        "the kubelet's version",
    ];
    let silent = "decisions of usher: no agent replies, and there is no timeline";
    let written =
        "new decisions of usher: no agent replies, and the timeline is that of the last one";
    assert_eq!(
        healthy().explain().unseen,
        [silent, processes, sockets, version]
    );
    let decided = healthy().decided(5, Detail::Waiting, "it has a sidecar");
    assert_eq!(
        decided.explain().unseen,
        [written, processes, sockets, version]
    );
    let mut answered = decided;
    answered.seen.agent = true;
    assert_eq!(answered.explain().unseen, [processes, sockets, version]);
    let known = Version {
        major: 1,
        minor: 33,
    };
    let all = answered
        .listening(&[])
        .process("app", 1, "app", &["app"], OnTerm::Handles);
    assert_eq!(all.explain().unseen, [version]);
    assert_eq!(all.kubelet(known).explain().unseen, [""; 0]);
}

/// Only Istio's proxy depends on the kubelet's version: a new kubelet supports it as a native sidecar.
#[test]
fn only_istios_proxy_needs_the_version_of_the_kubelet() {
    let plain = Scenario::new(job(&[app(json!({}))]));
    for (scenario, expected) in [(healthy(), true), (plain, false)] {
        assert_eq!(
            needs_kubelet_version(&Facts::parse(&scenario.pod)),
            expected
        );
        let unseen = scenario.explain().unseen;
        let named = unseen.iter().any(|one| one == "the kubelet's version");
        assert_eq!(named, expected, "{unseen:?}");
    }
}
