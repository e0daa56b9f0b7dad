//! A pod in the node's own network namespace: only its own sockets are listed.

use std::net::TcpListener;

use usher_tests::privilege;
use usher_tests::synthetic::wire::Holding;
use usher_tests::synthetic::{ContainerSpec, PodSpec, machine};

use crate::{enforcing, run};

#[test]
fn node_sockets_are_not_attributed_to_a_host_network_pod() {
    let test = "conns::host::node_sockets_are_not_attributed_to_a_host_network_pod";
    if !privilege::granted() || !machine::entered(test) {
        return;
    }
    let Some(node) = enforcing() else { return };
    // The listener belongs to this test, which is not in the pod.
    let _of_the_node = TcpListener::bind("127.0.0.1:7777").unwrap();
    let app = Holding::default()
        .listening("127.0.0.1:8080")
        .connected("127.0.0.1:8080", 1);
    let spec = PodSpec::new("host")
        .with(ContainerSpec::holding("app", app))
        .host_network();
    let pod = node.run(&spec);
    pod.wait_line("app", "holding");
    let ran = run(&node, &["conns", &pod.name(), "--all"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("127.0.0.1:8080"), "{ran:?}");
    assert!(!ran.stdout.contains(":7777"), "{ran:?}");
    assert!(ran.stderr.contains("node's network"), "{ran:?}");
    assert!(
        ran.stdout
            .lines()
            .skip(1)
            .all(|line| line.contains(" app ")),
        "{ran:?}"
    );
}
