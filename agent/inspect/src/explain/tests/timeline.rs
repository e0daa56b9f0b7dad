//! The timeline of a pod.

use serde_json::json;
use usher_core::decision::timeline::Entry;

use super::{
    Detail, Explanation, Origin, healthy,
    pods::{NOW_MS, time},
};

#[test]
fn a_pod_that_is_gone_has_its_decisions() {
    let entry = |at_ms, detail: &str| Entry {
        at_ms,
        uid: "u".to_owned(),
        pod: "shop/report".to_owned(),
        detail: Detail::named(detail),
        container: None,
        reason: format!("because of {detail}"),
        since_exit_ms: None,
    };
    let entries = [entry(1_000, "would-quit"), entry(4_000, "pod-finished")];
    let gone = Explanation::of_gone_pod(64_000, &entries).unwrap();
    assert_eq!((gone.pod(), gone.is_gone), ("shop/report".to_owned(), true));
    assert_eq!(
        gone.verdict.message,
        "the pod is gone; the last decision about it, 1 min 0 s ago: pod-finished: because of pod-finished"
    );
    let moments: Vec<(u64, &str)> = gone
        .timeline
        .iter()
        .map(|moment| (moment.after_ms, &moment.what[..]))
        .collect();
    assert_eq!(moments, [(0, "would-quit"), (3_000, "pod-finished")]);
    assert_eq!(Explanation::of_gone_pod(0, &[]), None);
}

#[test]
fn times_are_relative_to_the_first_event() {
    let scenario = healthy().ended("app", 60, 30, 0);
    let timeline = scenario
        .decided(29, Detail::WouldQuit, "observe mode")
        .explain()
        .timeline;
    let shown: Vec<_> = timeline
        .iter()
        .map(|one| {
            (
                one.after_ms,
                &one.at[11..19],
                one.from.as_str(),
                &one.what[..],
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (0, "00:09:04", "kubelet", "created"),
            (1_000, "00:09:05", "kubelet", "accepted"),
            (1_000, "00:09:05", "kubelet", "started"),
            (2_000, "00:09:06", "kubelet", "started"),
            (31_000, "00:09:35", "kubelet", "ended"),
            (32_000, "00:09:36", "usher", "would-quit"),
        ]
    );
    for teller in [Origin::Kubelet, Origin::Usher] {
        assert_eq!(serde_json::to_value(teller).unwrap(), teller.as_str());
    }
}

/// The API server sets `deletionTimestamp` to the end of the grace period.
#[test]
fn deletion_is_at_the_time_of_its_request() {
    for (grace, ago) in [(json!(null), 5), (json!(0), 5), (json!(30), 35)] {
        let mut deleted = healthy();
        deleted.pod["metadata"]["deletionTimestamp"] = json!(time(5));
        deleted.pod["metadata"]["deletionGracePeriodSeconds"] = grace;
        let timeline = deleted.explain().timeline;
        let row = timeline.iter().find(|one| one.what == "deleted").unwrap();
        assert_eq!((row.at_ms, &row.at), (NOW_MS - ago * 1000, &time(ago)));
    }
}
