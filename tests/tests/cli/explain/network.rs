//! Interfaces, addresses and routes in `usher explain -o wide`.

use serde_json::json;
use usher_tests::privilege;
use usher_tests::synthetic::{PodSpec, machine};

use super::{explain, observing};
use crate::run;

#[test]
fn network_of_a_pod_without_tools() {
    let Some(node) = observing() else { return };
    let spec = PodSpec {
        routed: true,
        ..PodSpec::job("routed")
    };
    let pod = node.run(&spec);
    let name = pod.name();
    let wide = run(&node, &["explain", &name, "-o", "wide"]);
    for line in [
        "  lo: up, mtu 65536, 127.0.0.1/8",
        "  e0: up, mtu 1500, mac ",
        ", 10.7.0.2/24",
        ", fd07:1::2/64",
        "  route default via 10.7.0.1 dev e0",
        "  route 10.7.0.0/24 dev e0 src 10.7.0.2",
        "  route default via fd07:1::1 dev e0 metric 1024",
    ] {
        assert!(wide.stdout.contains(line), "{line} in {}", wide.stdout);
    }
    let (explanation, _code) = explain(&node, &pod);
    let network = &explanation["network"];
    assert_eq!(network["interfaces"][0]["name"], "lo");
    assert_eq!(network["interfaces"][0]["hardware"], 772);
    let e0 = network["interfaces"].as_array().unwrap().iter();
    let e0 = e0.clone().find(|link| link["name"] == "e0").unwrap();
    let addresses = e0["addresses"].as_array().unwrap();
    assert!(addresses.contains(&json!("10.7.0.2/24")), "{network:#}");
    let routes = network["routes"].as_array().unwrap();
    let default = json!({"destination": "0.0.0.0/0", "gateway": "10.7.0.1", "interface": "e0"});
    assert!(routes.contains(&default), "{network:#}");
}

#[test]
fn network_of_a_host_network_pod_is_the_nodes() {
    // A pod in the machine's network namespace requires a machine of its own.
    if !privilege::granted()
        || !machine::entered("explain::network::network_of_a_host_network_pod_is_the_nodes")
    {
        return;
    }
    let Some(node) = observing() else { return };
    let pod = node.run(&PodSpec::job("shared").host_network());
    let wide = run(&node, &["explain", &pod.name(), "-o", "wide"]);
    let line = "hostNetwork: the pod shares the node's interfaces and routes";
    assert!(wide.stdout.contains(line), "{}", wide.stdout);
    let (explanation, _code) = explain(&node, &pod);
    let expected = json!({"hostNetwork": true, "interfaces": [], "routes": []});
    assert_eq!(explanation["network"], expected);
}
