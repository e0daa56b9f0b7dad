//! Pods that have done their work and do not end.

use serde_json::json;

use super::{
    Id, Mode, Scenario, healthy,
    pods::{app, istio, job},
};

#[test]
fn stuck_pods_have_a_cause() {
    let done = |ago| healthy().ended("app", 60, ago, 0);
    let mut deleted = done(30);
    deleted.pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:10:00Z");
    let mut uploader = app(json!({}));
    uploader["name"] = json!("uploader");
    let helper = |ago| {
        Scenario::new(job(&[app(json!({})), uploader.clone(), istio(json!({}))]))
            .ended("app", 60, ago, 0)
            .running("uploader", 60)
            .running("istio-proxy", 60)
    };
    #[rustfmt::skip]
    let table = [
        ("its app runs", healthy(), None),
        ("its app ended just now", done(5), None),
        ("its app ended", done(30), Some((30, "istio-proxy", Id::SidecarStays))),
        ("its app failed", healthy().ended("app", 60, 30, 1), Some((30, "istio-proxy", Id::SidecarStays))),
        ("also where usher enforces", done(90).mode(Mode::Enforce), Some((90, "istio-proxy", Id::SidecarStays))),
        ("all of it ended", done(30).ended("istio-proxy", 60, 20, 0), None),
        ("it is deleted", deleted, None),
        ("its phase is final", done(30).reason("Failed", "Evicted"), None),
        ("another container runs", helper(30), Some((30, "uploader", Id::UnknownHelper))),
        ("another container runs still", helper(3), None),
    ];
    for (what, scenario, expected) in table {
        let explanation = scenario.explain();
        let found = explanation.stuck.as_ref().map(|stuck| {
            let ago = (explanation.at_ms - stuck.since_ms) / 1000;
            let cause = explanation.cause().map(|cause| cause.id);
            (ago, stuck.containers.join(","), cause)
        });
        let expected = expected.map(|(ago, name, id)| (ago, name.to_owned(), Some(id)));
        assert_eq!(found, expected, "{what}: {explanation:#?}");
    }
    let healthy = healthy().explain();
    assert_eq!(healthy.cause(), None);
}
