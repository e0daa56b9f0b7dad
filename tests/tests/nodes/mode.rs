//! `usher.dev/mode` on one Node.

use std::time::{Duration, Instant};

use crate::rig::{Rig, announces, decided, decisions, has_plugin, networks};

/// From the annotation to the end of the sidecar, many times what a busy machine needs. Without a watch it takes minutes.
const AT_ONCE: Duration = Duration::from_secs(45);

pub(crate) fn observed_on_both_then_enforced_on_one(rig: &Rig) {
    let [one, two] = &rig.nodes;
    let before = networks(one);
    for (node, job) in [(one, "first-one"), (two, "first-two")] {
        rig.app_ends(node, job);
        decided(node, job, "would-quit");
        rig.is_stuck(job);
    }

    let annotated = Instant::now();
    rig.says(two, &["mode=enforce"], ["enforce", "enforce"]);
    decided(two, "first-two", "sidecar-ended");
    let took = annotated.elapsed();
    assert!(took < AT_ONCE, "{took:?} after the annotation");
    rig.completes("first-two");

    // After the whole lifetime of a pod the other agent is unchanged.
    rig.app_ends(one, "second-one");
    decided(one, "second-one", "would-quit");
    for job in ["first-one", "second-one"] {
        rig.is_stuck(job);
        let decisions = decisions(one, job);
        assert!(
            decisions.iter().all(|one| !one.starts_with("quit-")),
            "{job}: {decisions:?}"
        );
    }
    assert!(announces(two) && has_plugin(two));
    assert_eq!(networks(one), before, "not a byte");
    assert!(!has_plugin(one));
}
