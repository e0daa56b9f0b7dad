//! Checks of the agent.

use usher_core::{
    admin::{self, ApiServer, Kubelet, Modes, Status},
    metric::sample,
    settings::mode::{Limit, Mode},
};

use super::super::tests::*;

const SAMPLES: &str = "usher_config_valid 1\nusher_start_hold_supported 1\nusher_worker_up 1\nusher_holder_up 1\n\
    usher_kubelet_requests_total{result=\"ok\"} 5\nusher_events_total{result=\"sent\"} 4\n";

fn status() -> Status {
    Status {
        agent: Some(admin::Agent {
            version: "0.1.0".to_owned(),
            up_ms: 3_700_000,
            ..admin::Agent::default()
        }),
        modes: Modes {
            quit: Mode::Enforce,
            quit_for_ms: Some(60_000),
            hold: Mode::Enforce,
            linger: Mode::Off,
            ..Modes::default()
        },
        kubelet: Kubelet {
            listed_ms_ago: Some(20_000),
            error: None,
        },
        api_server: ApiServer {
            watched: true,
            last_response_ms_ago: Some(3_000),
            ..ApiServer::default()
        },
        ..Status::default()
    }
}

pub(super) fn agent(more: &str) -> agent::Found {
    agent::Found {
        version: "0.1.0".to_owned(),
        agent: Ok(agent::Agent {
            status: status(),
            plugin: agent::Plugin::Same,
            samples: sample::parse(&format!("{SAMPLES}{more}")),
        }),
        tables: Ok(Vec::new()),
    }
}

#[test]
fn healthy_agent() {
    let checks = agent::judge(&agent(""));
    assert_eq!(checks.len(), agent::ALL.len());
    assert!(
        checks.iter().all(|check| check.outcome == Outcome::Ok),
        "{checks:?}"
    );
    assert_eq!(
        of(&checks, "agent-modes").message,
        "quit: enforce for 1m, hold: enforce, linger: off"
    );
}

#[test]
fn unhealthy_agent() {
    type Case<'a> = (&'a str, Outcome, &'a str, &'a dyn Fn(&mut agent::Agent));
    let cases: [Case<'_>; 16] = [
        ("agent-worker", Outcome::Failed, "kubectl logs", &|agent| {
            agent.samples.retain(|one| one.name != "usher_worker_up");
        }),
        (
            "agent-quarantine",
            Outcome::Warning,
            "PodQuarantined",
            &|agent| {
                agent
                    .samples
                    .extend(sample::parse("usher_quarantined_pods 2\n"));
            },
        ),
        ("agent-ready", Outcome::Failed, "kubectl logs", &|agent| {
            let status = agent.status.agent.as_mut().unwrap();
            status.waits.push("the kubelet".to_owned());
        }),
        (
            "agent-ready",
            Outcome::Failed,
            "the CNI plugin: cni-entry",
            &|agent| {
                let status = agent.status.agent.as_mut().unwrap();
                status.waits.push("no configuration".to_owned());
            },
        ),
        (
            "agent-versions",
            Outcome::Warning,
            "kubectl delete pod -n usher POD",
            &|agent| agent.status.agent.as_mut().unwrap().version = "0.0.9".to_owned(),
        ),
        (
            "agent-versions",
            Outcome::Warning,
            "kubectl delete pod -n usher POD",
            &|agent| agent.plugin = agent::Plugin::Other,
        ),
        (
            "agent-modes",
            Outcome::Warning,
            "usher.dev/mode=enforce",
            &|agent| {
                agent.status.modes = Modes::default();
            },
        ),
        ("agent-modes", Outcome::Failed, "hostPID: true", &|agent| {
            agent.status.modes.limit = Some(Limit::UnknownHost);
        }),
        (
            "agent-modes",
            Outcome::Failed,
            "correct the ConfigMap",
            &|agent| agent.status.modes.limit = Some(Limit::InvalidConfiguration),
        ),
        (
            "agent-modes",
            Outcome::Failed,
            "can-i get nodes",
            &|agent| agent.status.modes.limit = Some(Limit::UnknownNode),
        ),
        ("agent-kubelet", Outcome::Failed, "kubelet-pods", &|agent| {
            agent.status.kubelet.listed_ms_ago = None;
        }),
        ("agent-kubelet", Outcome::Failed, "kubelet-pods", &|agent| {
            agent.status.kubelet.listed_ms_ago = Some(700_000);
        }),
        (
            "agent-api-server",
            Outcome::Failed,
            "can-i watch nodes",
            &|agent| {
                let api = &mut agent.status.api_server;
                api.error = Some("gone".to_owned());
                api.last_response_ms_ago = None;
            },
        ),
        (
            "agent-namespaces",
            Outcome::Failed,
            "can-i get namespaces",
            &|agent| {
                let line = "shop (its pods wait until it can be read): forbidden";
                let api = &mut agent.status.api_server;
                api.unread_namespaces.push(line.to_owned());
            },
        ),
        (
            "agent-configuration",
            Outcome::Failed,
            "node-configuration",
            &|agent| agent.samples.clear(),
        ),
        ("agent-holder", Outcome::Skipped, "", &|agent| {
            agent.samples.retain(|one| {
                !["usher_start_hold_supported", "usher_holder_up"].contains(&&one.name[..])
            });
        }),
    ];
    for (id, outcome, words, change) in cases {
        let mut found = agent("");
        change(found.agent.as_mut().unwrap());
        let (came, fix) = outcome_and_fix(&agent::judge(&found), id);
        assert_eq!(came, outcome, "{id}");
        assert!(fix.contains(words), "{id}: {fix}");
    }
    for (more, id, words) in [
        (
            "usher_holder_exits_total 2",
            "agent-holder",
            "resources.limits.memory",
        ),
        (
            "usher_events_total{result=\"failed\"} 9",
            "agent-events",
            "can-i create events",
        ),
        (
            "usher_decisions_total{decision=\"gave-up\"} 2",
            "agent-failures",
            "usher explain",
        ),
        (
            "usher_log_lines_dropped_total 1",
            "agent-failures",
            "usher explain",
        ),
    ] {
        let (came, fix) = outcome_and_fix(&agent::judge(&agent(more)), id);
        assert_eq!(came, Outcome::Warning, "{id}");
        assert!(fix.contains(words), "{id}: {fix}");
    }
}

#[test]
fn checks_of_the_agent_are_skipped_without_one() {
    let found = agent::Found {
        agent: Err("no listener".to_owned()),
        tables: Ok(vec!["shop/web".to_owned()]),
        ..agent("")
    };
    let checks = agent::judge(&found);
    assert_eq!(checks.len(), agent::ALL.len());
    let count = Count::of(&checks);
    assert_eq!((count.failed, count.warnings, count.exit_code()), (1, 1, 1));
    assert!(
        outcome_and_fix(&checks, "agent-runs")
            .1
            .contains("kubectl get pods")
    );
    assert!(
        outcome_and_fix(&checks, "leftover-tables")
            .1
            .contains("usher cleanup --dry-run")
    );
}

/// Values on both sides of each threshold.
#[test]
fn observations_of_the_agent() {
    const RESTARTS: &str = "usher_holder_exits_total 2";
    let failed = |count| format!("usher_events_total{{result=\"failed\"}} {count}");
    type Change = fn(&mut agent::Agent);
    let same: Change = |_| {};
    let without_holder: Change = |agent| agent.samples.retain(|one| one.name != "usher_holder_up");
    let requests = "usher_kubelet_requests_total{result=\"timeout\"} 2\n\
                    usher_kubelet_requests_total{result=\"tls\"} 1";
    const DENIED: &str = "usher_start_denied_execs_total 3";
    let paused: Change = |agent| {
        agent
            .samples
            .retain(|one| one.name != "usher_start_hold_supported");
    };
    let cases: [(&str, &str, Change, Outcome, &str); 14] = [
        (
            "agent-holder",
            DENIED,
            same,
            Outcome::Warning,
            "the kernel denied 3 execs, because it could not open their programs for usher; starts are held",
        ),
        (
            "agent-holder",
            DENIED,
            paused,
            Outcome::Warning,
            "the kernel denied 3 execs, because it could not open their programs for usher; starts are not held until the agent retries",
        ),
        ("agent-holder", "", same, Outcome::Ok, "running"),
        (
            "agent-holder",
            "",
            without_holder,
            Outcome::Ok,
            "not running: it starts for the first pod that needs it",
        ),
        (
            "agent-holder",
            RESTARTS,
            same,
            Outcome::Warning,
            "ended 2 times; running now: true",
        ),
        (
            "agent-holder",
            RESTARTS,
            without_holder,
            Outcome::Warning,
            "ended 2 times; running now: false",
        ),
        (
            "agent-holder",
            "",
            paused,
            Outcome::Ok,
            "running; starts cannot be held now: see kernel-fanotify, node-bundles and kernel-inotify-instances",
        ),
        (
            "agent-holder",
            RESTARTS,
            paused,
            Outcome::Warning,
            "ended 2 times; running now: true",
        ),
        (
            "agent-holder",
            RESTARTS,
            |agent| {
                agent
                    .samples
                    .retain(|one| one.name == "usher_holder_exits_total");
            },
            Outcome::Warning,
            "ended 2 times; running now: false",
        ),
        (
            "agent-kubelet",
            requests,
            same,
            Outcome::Ok,
            "20s old; 3 requests failed",
        ),
        (
            "agent-kubelet",
            "",
            |agent| agent.status.kubelet.listed_ms_ago = Some(660_000),
            Outcome::Ok,
            "11m old; 0 requests failed",
        ),
        (
            "agent-kubelet",
            "",
            |agent| agent.status.kubelet.listed_ms_ago = Some(661_000),
            Outcome::Failed,
            "11m 1s old",
        ),
        (
            "agent-events",
            &failed(4),
            same,
            Outcome::Ok,
            "4 sent, 0 dropped, 4 failed",
        ),
        (
            "agent-events",
            &failed(5),
            same,
            Outcome::Warning,
            "4 sent, 0 dropped, 5 failed",
        ),
    ];
    for (id, more, change, outcome, message) in cases {
        let mut found = agent(more);
        change(found.agent.as_mut().unwrap());
        let check = of(&agent::judge(&found), id);
        assert_eq!(
            (check.outcome, &check.message[..]),
            (outcome, message),
            "{id}"
        );
    }
}
