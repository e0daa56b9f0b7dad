//! `usher.dev/quit` and `usher.dev/hold`: a mode for each capability, on each Node.

use crate::rig::{Rig, announces, decided, decisions, has_plugin, until};

/// At the start the second node is in enforce mode, the first in observe mode.
pub(crate) fn one_is_off_on_one_node_and_the_other_on_the_other(rig: &Rig) {
    let [one, two] = &rig.nodes;
    rig.says(two, &["quit=off"], ["off", "enforce"]);
    rig.says(one, &["mode=enforce", "hold=off"], ["enforce", "off"]);
    // The Job that was stuck on the first node completes at once.
    for job in ["first-one", "second-one"] {
        rig.completes(job);
    }
    // The plugin is removed some time after its entry.
    until("the node that holds nothing", || {
        (!announces(one) && !has_plugin(one)).then_some(())
    });

    rig.app_ends(two, "off-two");
    rig.app_ends(one, "off-one");
    rig.completes("off-one");
    // Meanwhile, for the whole lifetime of a pod, the other pod was left alone.
    rig.is_stuck("off-two");
    let found = decisions(two, "off-two");
    assert!(
        found.iter().all(|one| !one.contains("quit")),
        "nothing is decided: {found:?}"
    );
    assert!(announces(two) && has_plugin(two), "it still holds");

    rig.says(two, &["quit-"], ["enforce", "enforce"]);
    decided(two, "off-two", "sidecar-ended");
    rig.completes("off-two");
}
