//! Changes of the rules by a pod's own processes that run as root.

use std::fmt::Write;

use usher_tests::synthetic::Agent;

use crate::{
    armed, connected, eventually, has_table, holding, late, ready, ready_on_command, refused,
};

/// The number of ports of a table that imitates ours.
const PORTS: u16 = 10_000;

fn imitation() -> String {
    let mut script = String::from(
        "table inet usher {\n set held { type inet_service; flags timeout; }\n set copying { type inet_proto; flags timeout; }\n}\n",
    );
    for port in 1..=PORTS {
        writeln!(
            script,
            "add element inet usher held {{ {port} timeout 60s }}"
        )
        .unwrap();
    }
    script
}

#[test]
fn pod_deletes_its_table() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("deletes"));
    armed(&agent, &pod);
    pod.filter("delete table inet usher\n");
    // The connection's next retransmission finds no listener.
    refused(&pod.client_result("app"));
    connected(&node.run(&late("other")).client_result("app"), 1);
}

#[test]
fn pod_deletes_its_table_before_the_sidecar_is_ready() {
    let Some(node) = holding() else { return };
    let agent = Agent::start(&node);
    let pod = node.run(&ready_on_command("both"));
    armed(&agent, &pod);
    pod.filter("delete table inet usher\n");
    eventually("no table", || !has_table(&pod));
    ready(&pod);
    pod.ended("app");
    connected(&node.run(&late("other")).client_result("app"), 1);
}

/// A starting agent finds it, and examines it for a bounded time.
#[test]
fn pod_imitates_the_table() {
    let Some(node) = holding() else { return };
    let pod = node.run(&ready_on_command("imitates"));
    refused(&pod.client_result("app"));
    pod.filter(&imitation());
    eventually("the imitation", || has_table(&pod));
    let agent = Agent::start(&node);
    connected(&node.run(&late("other")).client_result("app"), 1);
    ready(&pod);
    assert!(
        agent.usage().resident_kib < 64 * 1024,
        "{:?}",
        agent.usage()
    );
}
