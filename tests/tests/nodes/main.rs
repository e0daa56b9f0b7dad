//! usher on two nodes of one cluster: each agent follows its own Node, and knows of nothing else.
//!
//! `cargo xtask test` creates the cluster and names it in `USHER_TEST_CLUSTER`. There is one test, because
//! each part starts with the Nodes in the state of the part before.

#![expect(clippy::unwrap_used, reason = "a test panics")]

mod asked;
mod capability;
mod mode;
mod rig;

use rig::Rig;

#[test]
fn settings_of_one_node_do_not_affect_the_other() {
    let Some(rig) = Rig::open() else {
        return;
    };
    mode::observed_on_both_then_enforced_on_one(&rig);
    capability::one_is_off_on_one_node_and_the_other_on_the_other(&rig);
    asked::each_agent_asks_for_its_own_node_and_pods(&rig);
}
