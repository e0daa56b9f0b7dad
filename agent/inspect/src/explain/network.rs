//! The section of a pod's network: interfaces with their addresses, and routes.

use usher_core::node::network::Network;

/// One line for each interface and each route.
pub fn lines(network: &Network) -> Vec<String> {
    if network.host_network {
        return vec!["hostNetwork: the pod shares the node's interfaces and routes".to_owned()];
    }
    let interfaces = network.interfaces.iter().map(ToString::to_string);
    let routes = network.routes.iter().map(|route| format!("route {route}"));
    let incomplete = network
        .incomplete
        .then(|| "incomplete: the lists changed while they were read, or are too long".to_owned());
    interfaces.chain(routes).chain(incomplete).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn interfaces_come_before_routes() {
        let network = json!({
            "interfaces": [
                {"index": 1, "name": "lo", "state": "up", "mtu": 65536, "hardware": 772,
                    "addresses": ["127.0.0.1/8", "::1/128"]},
                {"index": 2, "name": "eth0", "state": "up", "mtu": 1450, "hardware": 1,
                    "mac": "0a:58:0a:f4:00:05", "peer": 7, "addresses": ["10.244.0.5/24"]},
            ],
            "routes": [
                {"destination": "0.0.0.0/0", "gateway": "10.244.0.1", "interface": "eth0"},
                {"destination": "10.244.0.0/24", "interface": "eth0", "source": "10.244.0.5"},
            ],
            "incomplete": true,
        });
        let network = serde_json::from_value(network).unwrap();
        let expected = [
            "lo: up, mtu 65536, 127.0.0.1/8, ::1/128",
            "eth0: up, mtu 1450, mac 0a:58:0a:f4:00:05, peer index 7, 10.244.0.5/24",
            "route default via 10.244.0.1 dev eth0",
            "route 10.244.0.0/24 dev eth0 src 10.244.0.5",
            "incomplete: the lists changed while they were read, or are too long",
        ];
        assert_eq!(lines(&network), expected);
    }

    #[test]
    fn host_network_is_named_and_not_listed() {
        let network = serde_json::from_value(json!({"hostNetwork": true})).unwrap();
        let expected = ["hostNetwork: the pod shares the node's interfaces and routes"];
        assert_eq!(lines(&network), expected);
    }
}
