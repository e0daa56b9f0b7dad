use super::super::status::*;
use crate::hold::ruleset::Queue;

fn well() -> Status {
    Status {
        agent: Some(Agent {
            ready: true,
            ..Agent::default()
        }),
        modes: Modes {
            hold: Mode::Enforce,
            ..Modes::default()
        },
        ..Status::default()
    }
}

#[test]
fn missing_kernel_features_are_reported_for_each_capability() {
    let lacking = Features {
        hold: Err("no nf_tables".to_owned()),
        dns: None,
        start: Err("no fanotify".to_owned()),
    };
    let reported = Lacks {
        hold: Some("no nf_tables".to_owned()),
        dns: Some("the kernel has neither nft queue nor NFQUEUE".to_owned()),
        start: Some("no fanotify".to_owned()),
    };
    assert_eq!(Lacks::from(&lacking), reported);
    let able = Features {
        hold: Ok(()),
        dns: Some(Queue::Compat),
        start: Ok(()),
    };
    assert_eq!(Lacks::from(&able), Lacks::default());
}

/// The engine's counts, and two counts from the pods: pods that concern usher, and pods that need attention
/// after their last decision.
#[test]
fn pods_are_counted() {
    let counted = Census {
        seen: 9,
        finished: 3,
        gave_up: 1,
        held: 2,
        held_starts: 1,
        held_stops: 2,
        quarantined: 1,
        ..Census::default()
    };
    let pods = [
        (PodState::Unknown, None),
        (PodState::NotApplicable, Some("not-applicable")),
        (PodState::Held, Some("hold-armed")),
        (PodState::Held, Some("hold-extended")),
        (PodState::Running, Some("hold-failed")),
        (PodState::Running, Some("start-missed")),
        (PodState::Finished, Some("gave-up")),
        (PodState::Done, Some("sidecar-ended")),
    ];
    let pods = pods.map(|(state, decision)| Pod {
        uid: "u".to_owned(),
        namespace: None,
        name: None,
        state,
        decision: decision.map(str::to_owned),
        reason: None,
        held_ports: Vec::new(),
        held_starts: 0,
        held_stops: 0,
        host_network: false,
        deleting: false,
        quarantine: None,
        containers: Vec::new(),
    });
    let expected = Census {
        seen: 9,
        finished: 3,
        gave_up: 1,
        held: 2,
        held_starts: 1,
        held_stops: 2,
        quarantined: 1,
        ours: 6,
        failed: 4,
    };
    assert_eq!(counted.with(&pods), expected);
}

#[test]
fn each_problem_has_a_next_command() {
    type Change = fn(&mut Status);
    let cases: [(&str, &str, Change); 8] = [
        ("no agent runs", "kubectl", |status| status.agent = None),
        ("not ready: the kubelet", "usher check", |status| {
            status.agent = Some(Agent {
                waits: vec!["the kubelet".to_owned()],
                ..Agent::default()
            });
        }),
        ("c.yaml:1:2", "usher check", |status| {
            status.configuration.error = Some("c.yaml:1:2".to_owned());
        }),
        ("status 401", "usher check", |status| {
            status.kubelet.error = Some("status 401".to_owned());
        }),
        ("the watch", "usher check", |status| {
            status.api_server.error = Some("refused".to_owned());
        }),
        ("nf_tables", "usher check --pre", |status| {
            status.lacks.hold = Some("nf_tables".to_owned());
        }),
        ("read-only", "usher check", |status| {
            status.plugin = Plugin {
                failed: true,
                detail: Some("read-only".to_owned()),
                ..Plugin::default()
            };
        }),
        ("2 pods", "usher explain", |status| status.pods.failed = 2),
    ];
    assert_eq!(well().judge(), []);
    for (words, next, change) in cases {
        let mut status = well();
        change(&mut status);
        let problems = status.judge();
        assert_eq!(problems.len(), 1, "{words}: {problems:?}");
        assert!(problems[0].what.contains(words), "{problems:?}");
        assert!(problems[0].next.contains(next), "{problems:?}");
    }
    let mut observing = well();
    observing.modes.hold = Mode::Observe;
    observing.lacks.hold = Some("nf_tables".to_owned());
    assert_eq!(observing.judge(), []);
}
