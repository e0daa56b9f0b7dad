//! The time that a sidecar may take to end, and the advice after it.

use serde_json::json;
use usher_core::{admin::Modes, decision::timeline::Detail, settings::mode::Limit};

use super::{Id, Mode, Scenario, healthy, pods::QUIT_ACCEPTED, troubles};

/// A pod whose app ended this many seconds ago.
fn done(ago: u64) -> Scenario {
    healthy().ended("app", 60, ago, 0)
}

#[test]
fn sidecar_has_as_long_as_the_request_takes() {
    let stays = ["sidecar-stays"].as_slice();
    let requested = |ago| {
        done(ago)
            .mode(Mode::Enforce)
            .decided(ago, QUIT_ACCEPTED, "POST")
    };
    // The sidecar drains for 20 s, and its slowest step takes 5 s.
    let drains = |ago| requested(ago).annotation("usher.dev/drain", "20s");
    let delayed = |ago| done(ago).annotation("usher.dev/quit-delay", "30s");
    let mut deleted = done(30);
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    #[rustfmt::skip]
    let table = [
        ("no request, 5 s", done(5), [].as_slice()),
        ("no request, longer", done(6), stays),
        ("request, 5 s and 5 s", requested(10), &[]),
        ("request, longer", requested(11), stays),
        ("drains, 20 s and 5 s and 5 s", drains(30), &[]),
        ("drains, longer", drains(31), stays),
        ("delayed, 30 s and 5 s", delayed(35), &[]),
        ("delayed, longer", delayed(36), stays),
        ("the kubelet ends it", deleted, &[]),
        ("it was ended as a whole", done(30).reason("Failed", "Evicted"), &[]),
    ];
    for (what, scenario, expected) in table {
        assert_eq!(troubles(&scenario), expected, "{what}");
    }
}

#[test]
fn advice_depends_on_the_possible_terminator() {
    let enforced = |agent| {
        let mut scenario = done(30).mode(Mode::Enforce);
        scenario.seen.agent = agent;
        scenario
    };
    let mut no_modes = done(30);
    no_modes.seen.modes = None;
    let hidden = |pod: Scenario| pod.decided(20, Detail::RuntimeUnsupported, "gvisor");
    let visible = hidden(enforced(true)).decided(10, Detail::Waiting, "its end is not known");
    #[rustfmt::skip]
    let table = [
        (done(30), "Enable usher to terminate the sidecar on this node.", "kubectl annotate node node-1 usher.dev/quit=enforce --overwrite"),
        (enforced(true), "Find why istio-proxy does not end: its log.", "kubectl -n shop logs report -c istio-proxy"),
        (enforced(false), "The usher agent does not reply on this node: check that it runs.", "kubectl -n usher get pods -o wide"),
        (no_modes, "The usher agent does not reply on this node: check that it runs.", "kubectl -n usher get pods -o wide"),
        (hidden(done(30)), "Let the app end its sidecar, or use another RuntimeClass. Or delete this pod.", "kubectl -n shop delete pod report"),
        (hidden(enforced(true)), "Let the app end its sidecar, or use another RuntimeClass. Or delete this pod.", "kubectl -n shop delete pod report"),
        (visible, "Find why istio-proxy does not end: its log.", "kubectl -n shop logs report -c istio-proxy"),
    ];
    for (scenario, remedy, how) in table {
        let finding = &scenario.explain().findings[0];
        assert_eq!(finding.id, Id::SidecarStays);
        assert_eq!(
            finding.problem,
            "every app ended 30 s ago and istio-proxy still runs, so the pod does not finish"
        );
        assert_eq!((&finding.remedy[..], &finding.how[..]), (remedy, how));
    }
}

#[test]
fn no_change_is_promised_for_a_pod_whose_processes_are_not_visible() {
    let pod = done(30);
    assert!(!pod.explain().changes.is_empty());
    let hidden = pod.decided(20, Detail::RuntimeUnsupported, "gvisor");
    assert_eq!(hidden.explain().changes, []);
}

/// The annotation is set already, or would not be read.
#[test]
fn limited_agent_is_corrected_instead_of_annotated() {
    let limited = |quit_source: &str, limit, is_node_unread: bool| {
        let mut scenario = done(30);
        scenario.seen.agent = true;
        scenario.seen.modes = Some(Modes {
            quit_source: Some(quit_source.to_owned()),
            limit,
            known: !is_node_unread,
            ..Modes::default()
        });
        scenario
    };
    let invalid =
        "annotation usher.dev/quit of the Node sets enforce, but the configuration is invalid";
    let no_node = "mode in the configuration sets enforce, but the Node has not been read";
    #[rustfmt::skip]
    let table = [
        (invalid, Some(Limit::InvalidConfiguration), false, "the configuration is invalid", "usher config"),
        (invalid, Some(Limit::InvalidConfiguration), true, "the configuration is invalid", "usher config"),
        ("default", Some(Limit::UnknownHost), false, "the host's network namespace is unknown", "hostPID: true"),
        (no_node, Some(Limit::UnknownNode), true, "the Node has not been read", "kubectl auth can-i get nodes"),
        ("default", None, true, "the Node has not been read", "kubectl auth can-i get nodes"),
    ];
    for (source, limit, is_node_unread, cause, how) in table {
        let explanation = limited(source, limit, is_node_unread).explain();
        let finding = &explanation.findings[0];
        assert_eq!(finding.id, Id::SidecarStays);
        let mode = finding.evidence.last().unwrap();
        assert_eq!(mode.message, format!("quit: observe ({source})"));
        let remedy = format!("Correct why usher only observes on this node: {cause}.");
        assert_eq!(finding.remedy, remedy);
        assert!(finding.how.contains(how), "{finding:?}");
        let text = serde_json::to_string(&explanation).unwrap();
        assert!(!text.contains("kubectl annotate node"), "{text}");
    }
}
