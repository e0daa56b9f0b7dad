//! Interfaces, addresses and routes of a namespace that the test creates with rtnetlink.

use usher_core::node::network::InterfaceState;
use usher_sys::net::link::Links;

use crate::scratch::{inside, lead_nowhere};

#[test]
fn interfaces_addresses_and_routes_are_listed() {
    inside(async |netns| {
        lead_nowhere();
        let links = Links::open(&netns).unwrap();
        let network = links.network().unwrap();
        assert!(!network.incomplete && !network.host_network, "{network:?}");
        let interface = |name: &str| {
            network
                .interfaces
                .iter()
                .find(|interface| interface.name == name)
                .unwrap()
        };
        let (lo, pod, nowhere) = (interface("lo"), interface("pod0"), interface("nowhere"));
        assert_eq!(network.interfaces.len(), 3);
        assert_eq!((lo.state, lo.hardware), (InterfaceState::Up, 772));
        assert_eq!((pod.state, pod.hardware), (InterfaceState::Up, 1));
        assert_eq!((pod.mtu, &lo.mac), (1500, &None));
        assert_eq!(
            (pod.peer, nowhere.peer),
            (Some(nowhere.index), Some(pod.index))
        );
        assert_eq!(pod.mac.as_deref().map(str::len), Some(17));
        let addresses: Vec<String> = pod.addresses.iter().map(ToString::to_string).collect();
        for address in ["192.0.2.1/24", "2001:db8::1/64"] {
            assert!(addresses.iter().any(|own| own == address), "{addresses:?}");
        }
        let routes: Vec<String> = network.routes.iter().map(ToString::to_string).collect();
        for route in [
            "default dev pod0",
            "192.0.2.0/24 dev pod0 src 192.0.2.1",
            "default dev pod0 metric 1024",
            "2001:db8::/64 dev pod0 metric 256",
        ] {
            assert!(routes.iter().any(|listed| listed == route), "{routes:?}");
        }
        let own = links.addresses().unwrap();
        for prefix in network.interfaces.iter().flat_map(|one| &one.addresses) {
            assert!(own.contains(&prefix.address), "{prefix} in {own:?}");
        }
    });
}
