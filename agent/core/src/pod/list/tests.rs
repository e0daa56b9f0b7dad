mod selection;

use std::time::Duration;

use super::super::list::*;
use crate::{
    base::id::ContainerId,
    pod::{
        requests::Requests,
        restart_policy::{RestartPolicy, RestartRule},
        spec::{KubeletProbe, ProbeKind, RunState},
    },
};

const UID: &str = "0d7e0c5c-6f0c-4b5a-9c1d-8a6d8a0f2b11";

fn reads() -> Reads {
    crate::settings::config::Config::default().reads()
}

fn one(json: &str) -> Pod {
    let list = parse(
        format!(r#"{{"kind":"PodList","items":[{json}]}}"#).as_bytes(),
        &reads(),
    )
    .unwrap();
    assert!(list.skipped.is_empty(), "{:?}", list.skipped);
    list.pods.into_iter().next().unwrap()
}

#[test]
fn grace_periods_of_any_size() {
    for (seconds, expected) in [("0", 0), ("4294967296", 1 << 32), ("-1", 1)] {
        let pod = one(&format!(
            r#"{{"metadata":{{"namespace":"shop","name":"a","uid":"{UID}"}},
                "spec":{{"terminationGracePeriodSeconds":{seconds},"containers":[]}}}}"#
        ));
        assert_eq!(pod.grace, Duration::from_secs(expected));
    }
}

#[test]
fn resize_policies() {
    let cpu = r#"{"resourceName":"cpu","restartPolicy":"NotRequired"}"#;
    let memory = r#"{"resourceName":"memory","restartPolicy":"RestartContainer"}"#;
    for (policies, expected) in [
        (format!("[{cpu},{memory}]"), true),
        (format!("[{cpu}]"), false),
        ("null".to_owned(), false),
    ] {
        let pod = one(&format!(
            r#"{{"metadata":{{"namespace":"shop","name":"a","uid":"{UID}"}},
                "spec":{{"containers":[{{"name":"app","resizePolicy":{policies}}}]}}}}"#
        ));
        assert_eq!(pod.containers[0].restarts_on_resize, expected, "{policies}");
    }
}

#[test]
fn a_whole_pod() {
    let app = "ab".repeat(32);
    let earlier = "cd".repeat(32);
    let pod = one(&format!(
        r#"{{
          "metadata": {{"namespace":"shop","name":"report-x","uid":"{UID}",
            "annotations":{{"usher.dev/quit":"false","other.dev/big":"x","status.sidecar.istio.io/port":"0"}},
            "deletionTimestamp":"2026-11-21T00:00:00Z"}},
          "spec": {{"restartPolicy":"Never","hostNetwork":true,
            "initContainers":[{{"name":"istio-init","image":"x"}}],
            "containers":[
              {{"name":"app","image":"shop/report:1","args":["a","b"],"restartPolicy":"OnFailure",
                "restartPolicyRules":[{{"action":"Restart","exitCodes":{{"operator":"In","values":[42]}}}}]}},
              {{"name":"istio-proxy","image":"istio/proxyv2:1.24.6"}}]}},
          "status": {{"containerStatuses":[
            {{"name":"app","containerID":"containerd://{app}","restartCount":1,
              "state":{{"terminated":{{"exitCode":3,"reason":"Error"}}}},
              "lastState":{{"terminated":{{"exitCode":7,"containerID":"containerd://{earlier}"}}}}}},
            {{"name":"istio-proxy","containerID":null,"state":{{"waiting":{{"reason":"PodInitializing"}}}}}}]}}}}"#
    ));
    assert_eq!(pod.display_name(), "shop/report-x");
    assert!(pod.deleting && pod.host_network);
    assert_eq!(pod.restart_policy, RestartPolicy::Never);
    assert_eq!(
        pod.annotations.keys().collect::<Vec<_>>(),
        ["status.sidecar.istio.io/port", "usher.dev/quit"]
    );
    let names: Vec<_> = pod.containers.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["app", "istio-proxy"]);
    let container = pod.container("app").unwrap();
    assert_eq!(container.restart_policy, Some(RestartPolicy::OnFailure));
    assert_eq!(container.restart_rules.len(), 1);
    let code_of = |id: &str| container.reported_code(&ContainerId::parse(id).unwrap());
    assert_eq!(code_of(&app), Some(3));
    assert_eq!(code_of(&earlier), Some(7));
    assert_eq!(code_of(&"ee".repeat(32)), None);
    let proxy = pod
        .container("istio-proxy")
        .unwrap()
        .status
        .clone()
        .unwrap();
    assert_eq!((proxy.id, proxy.state), (None, RunState::Waiting));
}

#[test]
fn init_containers_count_where_they_start_the_pod_again() {
    let rule = r#"{"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[42]}}"#;
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},
          "spec":{{"containers":[{{"name":"a"}}],"initContainers":[
            {{"name":"setup"}},
            {{"name":"proxy","restartPolicy":"Always"}},
            {{"name":"watch","restartPolicy":"Always","restartPolicyRules":[{rule}]}}]}},
          "status":{{"phase":"Failed","reason":"Evicted","initContainerStatuses":[
            {{"name":"watch","state":{{"terminated":{{"exitCode":42}}}}}}]}}}}"#
    ));
    assert_eq!(pod.native_sidecars, ["proxy", "watch"]);
    assert_eq!(pod.init_restarters.len(), 1);
    let watch = &pod.init_restarters[0];
    assert!(watch.restart_rules[0].whole_pod);
    assert_eq!(
        watch.status.as_ref().unwrap().state,
        RunState::Terminated(42)
    );
    assert_eq!(pod.terminal.as_deref(), Some("Evicted"));
}

#[test]
fn absent_fields_have_the_defaults_of_the_api() {
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"containers":[{{"name":"a"}}]}}}}"#
    ));
    assert_eq!(pod.restart_policy, RestartPolicy::Always);
    assert!(!pod.deleting && !pod.host_network);
    assert_eq!(pod.containers[0].status, None);
}

#[test]
fn rules_are_read_with_their_operator() {
    let rule = |operator: &str| {
        format!(
            r#"{{"action":"Restart","exitCodes":{{"operator":"{operator}","values":[42,43]}}}}"#
        )
    };
    let (within, without) = (rule("In"), rule("NotIn"));
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"containers":[
            {{"name":"a","restartPolicyRules":[{within},{without}]}}]}}}}"#
    ));
    let rule = |within| RestartRule {
        codes: vec![42, 43],
        within,
        whole_pod: false,
    };
    assert_eq!(pod.containers[0].restart_rules, [rule(true), rule(false)]);
}

#[test]
fn requested_resources() {
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{
          "containers":[
            {{"name":"a","resources":{{"requests":{{"cpu":"250m","memory":"64Mi","ephemeral-storage":"1Gi"}},"limits":{{"cpu":"2"}}}}}},
            {{"name":"b","resources":{{"requests":{{"cpu":1,"memory":{{}}}}}}}},
            {{"name":"c","resources":{{}}}}],
          "initContainers":[
            {{"name":"native","restartPolicy":"Always","resources":{{"requests":{{"memory":"36Mi"}}}}}},
            {{"name":"init","resources":{{"requests":{{"cpu":"2"}}}}}}],
          "overhead":{{"cpu":"10m"}}}}}}"#
    ));
    let requests = |requests: Requests| (requests.cpu_millis, requests.memory_bytes >> 20);
    let containers: Vec<_> = pod
        .containers
        .iter()
        .map(|one| requests(one.requests))
        .collect();
    assert_eq!(containers, [(250, 64), (1000, 0), (0, 0)]);
    assert_eq!(requests(pod.requests), (2010, 100));
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"resources":{{"requests":{{"cpu":"100m"}}}},
          "containers":[{{"name":"a","resources":{{"requests":{{"cpu":"1","memory":"1Mi"}}}}}}]}}}}"#
    ));
    assert_eq!(requests(pod.requests), (100, 1));
}

/// The digest of an image is read if its tag has no version and the kubelet reports the digest.
#[test]
fn digests_of_images() {
    let digest = "istio/proxyv2@sha256:ab";
    for (image, image_id, want) in [
        ("istio/proxyv2:latest", digest, Some(digest)),
        ("istio/proxyv2:latest", "", None),
        ("istio/proxyv2:1.24.6", digest, None),
    ] {
        let pod = one(&format!(
            r#"{{"metadata":{{"name":"x","uid":"{UID}"}},
              "spec":{{"containers":[{{"name":"a","image":"{image}"}}]}},
              "status":{{"containerStatuses":[
                {{"name":"a","imageID":"{image_id}","state":{{"running":{{}}}}}}]}}}}"#
        ));
        assert_eq!(pod.containers[0].image_id.as_deref(), want, "{image}");
    }
}

#[test]
fn an_unknown_kind_of_rule_may_apply() {
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"restartPolicy":"Never","containers":[
            {{"name":"a","restartPolicyRules":[{{"action":"Restart","moonPhase":{{}}}}]}}]}}}}"#
    ));
    let rules = &pod.containers[0].restart_rules;
    let verdict = crate::pod::restart_policy::judge(RestartPolicy::Never, rules, Some(0));
    assert_eq!(verdict, crate::pod::restart_policy::Verdict::ComesBack);
}

#[test]
fn one_bad_pod_does_not_hide_the_others() {
    let body = format!(
        r#"{{"items":[{{"metadata":{{"name":"no-spec","uid":"{UID}"}}}},
            {{"metadata":{{"namespace":"a","name":"b","uid":"../.."}},"spec":{{"containers":[]}}}},
            {{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"containers":[]}}}}]}}"#
    );
    let list = parse(body.as_bytes(), &reads()).unwrap();
    assert_eq!(list.pods.len(), 1);
    let texts: Vec<_> = list.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "pod number 0 of the kubelet's list is invalid",
            "pod a/b of the kubelet's list has an invalid UID"
        ]
    );
}

#[test]
fn empty_and_broken_answers() {
    for empty in [r#"{"items":null}"#, r#"{"items":[]}"#, "{}"] {
        assert!(parse(empty.as_bytes(), &reads()).unwrap().pods.is_empty());
    }
    for broken in ["", "{", r#"{"items":[{"#, "Unauthorized", r#"{"items":3}"#] {
        assert!(parse(broken.as_bytes(), &reads()).is_err(), "{broken}");
    }
}

#[test]
fn users_of_containers_come_before_those_of_the_pod_and_their_own_ids_are_known() {
    let pod = one(&format!(
        r#"{{
          "metadata": {{"namespace":"shop","name":"report-x","uid":"{UID}"}},
          "spec": {{"securityContext":{{"runAsUser":1000,"runAsGroup":2000,"fsGroup":1}},
            "containers":[{{"name":"app"}},
              {{"name":"istio-proxy","securityContext":{{"runAsUser":1337,"runAsGroup":7,"privileged":false}}}},
              {{"name":"odd","securityContext":{{"runAsUser":-1}}}}]}}}}"#
    ));
    let ids = pod
        .containers
        .iter()
        .map(|one| (one.user, one.own_user, one.own_group));
    let expected = [
        (Some(1000), None, None),
        (Some(1337), Some(1337), Some(7)),
        (None, None, None),
    ];
    assert_eq!(ids.collect::<Vec<_>>(), expected);
}

fn probes(container: &str) -> Vec<KubeletProbe> {
    let pod = one(&format!(
        r#"{{"metadata":{{"name":"x","uid":"{UID}"}},"spec":{{"containers":[{{"name":"a"{container}}}]}}}}"#
    ));
    pod.containers.into_iter().next().unwrap().probes
}

#[test]
fn probes_of_the_kubelet() {
    let probe = |kind, in_container, seconds: (u64, u64), failures| KubeletProbe {
        kind,
        in_container,
        initial_delay: Duration::from_secs(seconds.0),
        period: Duration::from_secs(seconds.1),
        failures,
    };
    let found = probes(
        r#","readinessProbe":{"httpGet":{"port":1}},
          "livenessProbe":{"httpGet":{"path":"/","port":"web","scheme":"HTTP"},"initialDelaySeconds":5,
            "timeoutSeconds":1,"periodSeconds":7,"successThreshold":1,"failureThreshold":4},
          "startupProbe":{"exec":{"command":["true"]},"terminationGracePeriodSeconds":1}"#,
    );
    let expected = [
        probe(ProbeKind::Startup, true, (0, 10), 3),
        probe(ProbeKind::Liveness, false, (5, 7), 4),
    ];
    assert_eq!(found, expected);
    assert!(probes("").is_empty());
    assert!(probes(r#","livenessProbe":null,"startupProbe":null"#).is_empty());
    let max = i32::MAX.unsigned_abs();
    for (number, delay, period, failures) in [
        ("0", 0, 10, 3),
        ("1", 1, 1, 1),
        ("null", 0, 10, 3),
        ("-1", 0, 1, 1),
        ("-0.0", 0, 10, 3),
        ("0.5", 0, 1, 1),
        ("2147483648", max, max, max),
        ("99999999999999999999999", max, max, max),
        ("-99999999999999999999999", 0, 1, 1),
    ] {
        let probe = probe(
            ProbeKind::Liveness,
            false,
            (u64::from(delay), u64::from(period)),
            failures,
        );
        let found = probes(&format!(
            r#","livenessProbe":{{"tcpSocket":{{}},"initialDelaySeconds":{number},"periodSeconds":{number},
              "failureThreshold":{number}}}"#
        ));
        assert_eq!(found, [probe], "{number}");
    }
}
