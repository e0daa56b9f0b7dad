use proptest::prelude::*;
use serde_json::json;

use super::super::facts::*;

#[test]
fn a_container_that_could_not_start_has_no_start_time() {
    let pod = json!({
        "spec": {"containers": [{"name": "app"}]},
        "status": {"containerStatuses": [{"name": "app", "state": {"terminated": {
            "exitCode": 128, "reason": "StartError",
            "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "2026-11-22T00:10:08Z",
        }}}]},
    });
    let facts = Facts::parse(&pod);
    let end = facts.container("app").unwrap().newest_end().unwrap();
    assert_eq!(end.started_ms, None);
    assert!(end.finished_ms.is_some());
}

#[test]
fn relevant_fields_are_parsed() {
    let pod = json!({
        "metadata": {
            "namespace": "shop", "name": "report", "uid": "u",
            "annotations": {"a": "b", "number": 3},
            "creationTimestamp": "2026-11-22T00:10:05Z",
            "ownerReferences": [{"kind": "Other"}, {"kind": "Job", "name": "report", "controller": true}],
        },
        "spec": {
            "nodeName": "node-1", "activeDeadlineSeconds": 60,
            "initContainers": [{"name": "native", "restartPolicy": "Always"}, {"name": "init"}],
            "containers": [{
                "name": "app", "image": "app:1", "command": ["a"], "args": ["--x", "1", "--y=2"],
                "env": [{"name": "E", "value": "v"}, {"name": "F", "valueFrom": {}}],
                "ports": [{"name": "http-web", "containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}],
                "readinessProbe": {"httpGet": {"port": "http-web", "path": "/ok"}, "periodSeconds": 2},
                "livenessProbe": {"tcpSocket": {"port": 99_999}},
                "startupProbe": null,
                "lifecycle": {"postStart": {"exec": {"command": ["wait"]}}},
            }],
        },
        "status": {
            "phase": "Running", "startTime": "2026-11-22T00:10:06Z",
            "containerStatuses": [{
                "name": "app", "ready": true, "restartCount": 2,
                "state": {"running": {"startedAt": "2026-11-22T00:10:09Z"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error",
                    "startedAt": "2026-11-22T00:10:07Z", "finishedAt": "2026-11-22T00:10:08Z"}},
            }],
        },
    });
    let facts = Facts::parse(&pod);
    assert_eq!(facts.owner, Some(("Job".to_owned(), "report".to_owned())));
    assert_eq!(facts.active_deadline, Some(Duration::from_secs(60)));
    assert_eq!(facts.annotations.len(), 1);
    assert!(facts.init[0].is_native && !facts.init[1].is_native);
    let app = facts.container("app").unwrap();
    assert_eq!(app.place, "spec.containers[0]");
    assert_eq!(
        (app.flag("--x"), app.flag("y"), app.flag("z")),
        (Some("1"), Some("2"), None)
    );
    assert_eq!((app.variable("E"), app.variable("F")), (Some("v"), None));
    assert_eq!((app.ports[0].number, app.ports[1].is_tcp), (8080, false));
    let acts: Vec<&Act> = app.probes.iter().map(|probe| &probe.act).collect();
    let path = "/ok".to_owned();
    assert_eq!(
        acts,
        [&Act::Tcp { port: 0 }, &Act::Http { port: 8080, path }]
    );
    assert_eq!(app.probes[1].period, Duration::from_secs(2));
    assert_eq!(app.post_start, ["wait"]);
    let end = app.newest_end().unwrap();
    assert_eq!((end.code, app.status.restarts, app.runs()), (1, 2, true));
    assert_eq!(app.started_ms().unwrap() - end.finished_ms.unwrap(), 1000);
}

fn container(container: &Value, status: &Value) -> Container {
    let pod = json!({
        "spec": {"containers": [container]},
        "status": {"containerStatuses": [status]},
    });
    Facts::parse(&pod).containers.remove(0)
}

#[test]
fn flags() {
    for (words, expected) in [
        (&["--port", "1"][..], Some("1")),
        (&["-port=1"], Some("1")),
        (&["--port="], Some("")),
        (&["--port"], None),
        // An argument that is not a flag, and another flag.
        (&["port", "1"], None),
        (&["port=1"], None),
        (&["--port-name=1"], None),
        (&["--port-name=1", "--port=2"], Some("2")),
    ] {
        let app = container(&json!({"args": words}), &Value::Null);
        assert_eq!(app.flag("--port"), expected, "{words:?}");
    }
}

#[test]
fn a_probe_without_a_period_has_the_kubelets() {
    for (written, seconds) in [(Value::Null, 10), (json!(0), 10), (json!(1), 1)] {
        let probe = json!({"exec": {}, "periodSeconds": written});
        let app = container(&json!({"readinessProbe": probe}), &Value::Null);
        assert_eq!(app.probes[0].period, Duration::from_secs(seconds));
    }
}

#[test]
fn a_probe_without_a_threshold_has_the_kubelets() {
    for (written, failures) in [(Value::Null, 3), (json!(0), 3), (json!(60), 60)] {
        let probe = json!({"exec": {}, "failureThreshold": written});
        let app = container(&json!({"startupProbe": probe}), &Value::Null);
        assert_eq!(app.probes[0].failures, failures);
    }
}

#[test]
fn states() {
    let waiting = |reason: &str| State::Waiting(reason.to_owned());
    let since = "2026-11-22T00:10:09Z";
    for (state, expected) in [
        (
            json!({"waiting": {"reason": "CrashLoopBackOff"}}),
            waiting("CrashLoopBackOff"),
        ),
        (json!({"waiting": {}}), waiting("")),
        (Value::Null, waiting("")),
        (
            json!({"running": {"startedAt": since}}),
            State::Running(date::parse(since)),
        ),
        (json!({"running": {}}), State::Running(None)),
        (
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": since}}),
            State::Ended(Ended {
                code: 137,
                reason: "OOMKilled".to_owned(),
                started_ms: None,
                finished_ms: date::parse(since),
            }),
        ),
    ] {
        let app = container(
            &json!({"name": "app"}),
            &json!({"name": "app", "state": state}),
        );
        assert_eq!(app.status.state, expected, "{state}");
    }
}

#[test]
fn pod_with_unusual_fields_is_read() {
    let pod = json!({"metadata": {"name": "b"}, "spec": "none", "status": []});
    assert_eq!(Facts::read(&pod.to_string()).unwrap().name, "b");
    assert_eq!(Facts::read("no"), None);
}

/// Any JSON, with keys of a pod at any position.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/:.0-9TZ-]{0,24}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "spec",
        "status",
        "containers",
        "initContainers",
        "containerStatuses",
        "name",
        "state",
        "lastState",
        "terminated",
        "running",
        "ports",
        "readinessProbe",
        "httpGet",
        "port",
        "env",
        "value",
        "annotations",
        "lifecycle",
        "postStart",
        "exec",
        "command",
        "exitCode",
        "startedAt",
    ]);
    leaf.prop_recursive(6, 64, 8, move |inner| {
        let entries = prop::collection::vec((keys.clone(), inner.clone()), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            entries.prop_map(|entries| {
                let entries = entries
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                Value::Object(entries.collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn any_input_is_parsed_without_panic(pod in json()) {
        let facts = Facts::parse(&pod);
        for container in facts.containers.iter().chain(&facts.init) {
            prop_assert!(container.newest_end().is_none() || !container.place.is_empty());
            prop_assert!(container.flag("--x").is_none() || !container.words.is_empty());
        }
    }
}
