//! usher on two nodes of one cluster: each agent reads only its own Node. `kubectl usher` finds the agent of each pod,
//! and a node that joins later has the mode of the configuration.
//!
//! `cargo xtask test --all` creates the cluster and names it in `USHER_TEST_CLUSTER`. The tests run one after the other. The
//! settings of Nodes have one test, because each part starts with the Nodes in the state of the part before.

#![expect(clippy::unwrap_used, reason = "a test panics")]

mod capability;
mod joins;
mod kubectl;
mod mode;
mod own_objects;
mod rig;

use rig::Rig;

#[test]
fn settings_of_one_node_do_not_affect_the_other() {
    let Some(rig) = Rig::open() else {
        return;
    };
    mode::observed_on_both_then_enforced_on_one(&rig);
    capability::one_is_off_on_one_node_and_the_other_on_the_other(&rig);
    own_objects::each_agent_requests_only_its_own_node_and_pods(&rig);
}
