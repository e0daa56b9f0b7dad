//! The conditions of an early start, and the text of its finding.

use serde_json::{Value, json};
use usher_core::{
    hold::Released,
    pod::list,
    settings::{config::Config, overrides::NamespaceValues},
};

use super::{
    Finding, Id, Mode, Scenario, Severity, healthy,
    pods::{app, istio, job, proxy, released, would_hold},
};
use crate::explain::{Case, Facts, explain};

/// The finding of an early start.
fn early(scenario: &Scenario) -> Option<Finding> {
    let findings = scenario.explain().findings;
    findings
        .into_iter()
        .find(|one| one.id == Id::StartedBeforeProxy)
}

/// Source and text of each evidence of a finding.
fn evidence(finding: &Finding) -> Vec<(&str, &str)> {
    let evidence = finding.evidence.iter();
    evidence
        .map(|one| (&one.source[..], &one.message[..]))
        .collect()
}

fn pair(containers: &[Value]) -> Scenario {
    Scenario::new(job(containers)).policy("OnFailure")
}

/// Times are in seconds since the proxy's start.
#[test]
fn run_is_early_where_the_proxy_could_not_be_ready() {
    const PROXY: u64 = 40;
    let at = |second: i64| PROXY.checked_add_signed(-second).unwrap();
    for (app_first, began, ended, code, expected) in [
        // The app started before the proxy, and ended within the proxy's 10 s to become ready.
        (true, -1, 10, 1, true),
        (false, -1, 10, 1, true),
        (true, -1, 11, 1, false),
        // The app started in the same second: the kubelet starts containers in the order of the spec.
        (true, 0, 8, 1, true),
        (false, 0, 8, 1, false),
        // The app started one second later, and ended within 5 s of the proxy's start.
        (false, 1, 5, 1, true),
        (true, 1, 6, 1, false),
        (true, 1, 9, 1, false),
        (true, 2, 4, 1, false),
        // A run of more than 30 s counts as a good start.
        (true, -25, 5, 1, true),
        (true, -26, 5, 1, false),
        // The app succeeded.
        (true, -1, 2, 0, false),
        // The app's command does not exist, or cannot run.
        (true, -1, 2, 127, false),
        (true, -1, 2, 126, false),
        (true, -1, 2, 137, true),
    ] {
        let scenario = if app_first {
            pair(&[app(json!({})), istio(json!({}))])
        } else {
            pair(&[istio(json!({})), app(json!({}))])
        };
        let scenario = scenario.running("istio-proxy", PROXY);
        let scenario = scenario.ended("app", at(began), at(ended), code);
        let is_early = early(&scenario).is_some();
        assert_eq!(
            is_early, expected,
            "{app_first} {began} to {ended}, code {code}"
        );
    }
}

#[test]
fn run_without_memory_has_another_cause() {
    let mut scenario = pair(&[app(json!({})), istio(json!({}))]).running("istio-proxy", 40);
    scenario = scenario.ended("app", 41, 39, 137);
    assert!(early(&scenario).is_some());
    let state = &mut scenario.pod["status"]["containerStatuses"][1]["state"];
    state["terminated"]["reason"] = json!("OOMKilled");
    assert_eq!(early(&scenario), None);
}

#[test]
fn early_start_is_a_hint_once_the_app_works() {
    let scenario = |since: u64| {
        let pair = pair(&[app(json!({})), istio(json!({}))]).policy("Always");
        let pair = pair.ended("app", 3700, 3695, 1).restarted("app", since);
        pair.running("istio-proxy", 3699)
    };
    let severity = |scenario: &Scenario| early(scenario).unwrap().severity;
    let (error, hint) = (Severity::Error, Severity::Hint);
    assert_eq!(severity(&scenario(600)), error);
    assert_eq!(severity(&scenario(601)), hint);
    assert!(scenario(601).explain().verdict.healthy);
    assert_eq!(severity(&scenario(601).unready("app")), error);
    let counted = |scenario: Scenario| scenario.decided(3690, would_hold(2), "a reason");
    assert_eq!(severity(&counted(scenario(600))), error);
    assert_eq!(severity(&counted(scenario(601))), hint);
    let late = scenario(3600).decided(3600, released(Released::Deadline, 1), "a reason");
    assert_eq!(severity(&late), Severity::Warning);
    assert_eq!(severity(&late.listening(&[15001, 15006])), hint);
}

#[test]
fn restarted_proxy_is_not_awaited() {
    let pair = || pair(&[istio(json!({})), app(json!({}))]).ended("app", 50, 49, 1);
    let finding = early(&pair()).unwrap();
    assert_eq!(
        evidence(&finding)[1],
        (
            "status.containerStatuses[istio-proxy]",
            "has not started; the app does not wait for it"
        )
    );
    let mut again = pair();
    again.pod["status"]["containerStatuses"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "istio-proxy", "restartCount": 1, "state": {"waiting": {}}}));
    assert_eq!(early(&again), None, "its first start is unknown");
}

/// Times are in seconds before the present.
#[test]
fn run_is_compared_with_the_first_start_of_the_proxy() {
    let restarted = |first: u64, ended: u64, second: u64| {
        let pair = pair(&[app(json!({})), istio(json!({}))]).policy("Always");
        let pair = pair
            .ended("istio-proxy", first, ended, 137)
            .restarted("istio-proxy", second);
        pair.ended("app", 3700, 3695, 1).restarted("app", 3694)
    };
    let with_restarts = |count: u64| {
        let mut scenario = restarted(3699, 60, 55);
        let statuses = &mut scenario.pod["status"]["containerStatuses"];
        statuses[0]["restartCount"] = json!(count);
        scenario
    };
    // The proxy ran for an hour before the app, and restarted just after it.
    assert_eq!(early(&restarted(7200, 3692, 3691)), None);
    let finding = early(&restarted(3699, 60, 55)).unwrap();
    let began = evidence(&finding)[1].1;
    assert_eq!(
        began,
        "started at 23:08:26; the app comes first in the spec"
    );
    assert_eq!(early(&with_restarts(2)), None, "its first run is unknown");
    // The kubelet counts a restart when the container starts: the last run is the second one.
    let mut waiting = restarted(3699, 60, 55);
    waiting.pod["status"]["containerStatuses"][0]["state"] =
        json!({"waiting": {"reason": "CrashLoopBackOff"}});
    assert_eq!(early(&waiting), None);
}

#[test]
fn only_a_proxy_that_takes_connections_is_awaited() {
    let before = |sidecar: &str, image: &str| {
        let scenario = pair(&[app(json!({})), proxy(sidecar, image, json!({}))]);
        early(&scenario.running(sidecar, 40).ended("app", 41, 39, 1)).is_some()
    };
    assert!(before("linkerd-proxy", "cr.l5d.io/linkerd/proxy:2"));
    assert!(!before("daprd", "daprio/daprd:1"), "no mesh");
    assert!(
        !before("envoy", "envoyproxy/envoy:v1"),
        "no traffic is redirected there"
    );
    // The proxy's hook delays the app, so the app ended for another reason.
    let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}});
    let waits = pair(&[istio(hook), app(json!({}))]).running("istio-proxy", 40);
    assert_eq!(early(&waits.ended("app", 39, 37, 1)), None);
}

#[test]
fn early_run_has_both_starts_as_evidence_and_a_fix() {
    let scenario = healthy().policy("OnFailure").ended("app", 60, 59, 1);
    let finding = early(&scenario).unwrap();
    assert_eq!(
        finding.problem,
        "app app ran before its proxy istio-proxy accepted connections, and ended with exit code 1"
    );
    assert_eq!(
        (finding.severity, finding.container.as_deref()),
        (Severity::Error, Some("app"))
    );
    let ran = [
        (
            "status.containerStatuses[app]",
            "ran from 00:09:05 to 00:09:06, exit code 1",
        ),
        (
            "status.containerStatuses[istio-proxy]",
            "started at 00:09:06; the app comes first in the spec",
        ),
    ];
    assert_eq!(evidence(&finding), ran);

    let watch = (
        "Enable usher to hold the app's connections on this node until the proxy is ready.",
        "kubectl annotate node node-1 usher.dev/hold=enforce --overwrite",
    );
    let start = "metadata:\n  annotations:\n    usher.dev/hold: \"start\"";
    for (mode, (remedy, how)) in [
        (Mode::Off, watch),
        (Mode::Observe, watch),
        (
            Mode::Enforce,
            (
                "Hold the start of the app too, not only its connections.",
                start,
            ),
        ),
    ] {
        let finding = early(&scenario.clone().mode(mode)).unwrap();
        assert_eq!((&finding.remedy[..], &finding.how[..]), (remedy, how));
    }
    let opted = early(&scenario.annotation("usher.dev/hold", "false")).unwrap();
    assert_eq!(
        evidence(&opted)[2],
        (
            "opt-out",
            "metadata.annotations[usher.dev/hold] = \"false\""
        )
    );
    assert_eq!(
        (&opted.remedy[..], &opted.how[..]),
        (
            "Override the setting that disables hold for this pod.",
            "metadata:\n  annotations:\n    usher.dev/hold: \"true\""
        ),
        "the pod's own annotation comes before its Namespace"
    );
}

/// The status has whole seconds, usher's decisions have milliseconds.
#[test]
fn end_counts_as_one_of_refused_connections_until_a_second_after_the_proxy_was_ready() {
    let reason =
        "observe mode: nothing is held; until the sidecar was ready, 2 connections were refused";
    for (ended, code, expected) in [
        (40, 1, Some("exit code 1, before the proxy was ready")),
        (38, 7, Some("exit code 7, before the proxy was ready")),
        (37, 1, None),
        (40, 0, None),
        (40, 127, None),
    ] {
        let scenario = healthy().policy("Always").ended("app", 45, ended, code);
        let scenario = scenario
            .restarted("app", 20)
            .decided(39, would_hold(2), reason);
        let finding = early(&scenario).unwrap();
        assert_eq!(
            finding.problem,
            "2 connections of the app were refused because its proxy was not ready"
        );
        let timeline = ("timeline 00:09:26 would-hold", reason);
        let app = expected.map(|message| ("status.containerStatuses[app]", message));
        let all: Vec<(&str, &str)> = app.into_iter().chain([timeline]).collect();
        assert_eq!(evidence(&finding), all, "{ended} {code}");
        let severity = match expected {
            Some(_) => Severity::Error,
            None => Severity::Warning,
        };
        assert_eq!(finding.severity, severity, "{ended} {code}");
    }
}

/// The finding of a pod whose app started first, with this configuration.
fn early_by(config: &Config) -> Finding {
    let scenario = healthy().policy("OnFailure").ended("app", 60, 59, 1);
    let list = json!({"items": [scenario.pod]}).to_string();
    let read = list::parse(list.as_bytes(), &config.reads()).unwrap();
    let facts = Facts::parse(&scenario.pod);
    let namespace = NamespaceValues::default();
    let case = Case::new(&read.pods[0], &facts, &scenario.seen, config, &namespace);
    explain(&case).findings.remove(0)
}

/// The pod has no annotation for the opt-out.
#[test]
fn fix_of_another_opt_out_overrides_it_in_the_pod_template() {
    let mut config = Config::default();
    config.defaults.hold = false;
    let finding = early_by(&config);
    assert_eq!(
        evidence(&finding)[2].1,
        "usher.dev/hold on its Namespace shop, or the configuration's defaults"
    );
    assert_eq!(
        finding.how,
        "metadata:\n  annotations:\n    usher.dev/hold: \"true\""
    );
}

#[test]
fn excluded_namespace_is_named_instead_of_the_mode() {
    let mut config = Config::default();
    config.excluded_namespaces.insert("shop".to_owned());
    let finding = early_by(&config);
    assert_eq!(
        evidence(&finding)[2],
        ("configuration", "excludedNamespaces has shop")
    );
    assert_eq!(
        (&finding.remedy[..], &finding.how[..]),
        (
            "Remove the namespace from excludedNamespaces in the configuration.",
            ""
        )
    );
}
