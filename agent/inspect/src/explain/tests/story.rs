//! What happened in a pod, with its times.

use super::{Detail, Origin, healthy};

#[test]
fn moments_count_from_the_first_one() {
    let scene = healthy().ended("app", 60, 30, 0);
    let timeline = scene
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
