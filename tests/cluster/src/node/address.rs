//! Generated addresses and names: made from the node's name, checked against the machine's routes.
//!
//! The formats are those of `/proc/net/route` and `/proc/net/tcp`.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The number of candidate networks before the machine counts as full.
const TRIES: u8 = 64;
const LISTEN: &str = "0A";
/// The network of all links: the upper half of 10.0.0.0/8, apart from pods and services, which are in the lower.
pub(crate) const LINKS: &str = "10.128.0.0/9";

/// The network between a node and the far end of its cable: four addresses, of which two are usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    network: u32,
}

/// A destination with an existing route of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    network: u32,
    mask: u32,
}

impl Link {
    /// The first network, in an order that depends only on the name, that overlaps no route.
    pub(crate) fn choose(name: &str, routes: &[Route]) -> Result<Self> {
        (0..TRIES)
            .map(|attempt| Self::candidate(name, attempt))
            .find(|link| !routes.iter().any(|route| route.overlaps(link)))
            .context("no free network in 10.128.0.0/9 for the node: every candidate overlaps a route of this machine")
    }

    fn candidate(name: &str, attempt: u8) -> Self {
        let hash = Sha256::new()
            .chain_update(name)
            .chain_update([attempt])
            .finalize();
        let bits = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
        // In LINKS.
        Self {
            network: 0x0A80_0000 | (bits & 0x007F_FFFC),
        }
    }

    pub(crate) fn from_host(host: Ipv4Addr) -> Self {
        Self {
            network: u32::from(host) & !3,
        }
    }

    /// The far end: the machine, or the cluster's first node.
    pub(crate) fn host(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// The node's end: the API server and the kubelet.
    pub(crate) fn node(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 2)
    }

    /// The interface at the far end: at most 15 bytes for any name.
    pub(crate) fn interface(name: &str) -> String {
        let digest = crate::image::hex(&Sha256::digest(name));
        format!("ush{}", &digest[..8])
    }
}

impl Route {
    fn overlaps(&self, link: &Link) -> bool {
        // The default route overlaps everything and does not count.
        let mask = self.mask & !3;
        self.mask != 0 && self.network & mask == link.network & mask
    }
}

/// The routes in the text of `/proc/net/route`; numbers there are in the machine's byte order.
pub(crate) fn routes(text: &str) -> Vec<Route> {
    let number = |word: Option<&&str>| {
        u32::from_str_radix(word?, 16)
            .ok()
            .map(|raw| u32::from_be_bytes(raw.to_ne_bytes()))
    };
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some(Route {
                network: number(words.get(1))?,
                mask: number(words.get(7))?,
            })
        })
        .collect()
}

/// Whether the text of `/proc/net/tcp` or `tcp6` has a listener on the port.
pub(crate) fn listening(text: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&suffix)) && words.nth(1) == Some(LISTEN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";

    fn route(network: &str, mask: u32) -> Route {
        Route {
            network: u32::from(network.parse::<Ipv4Addr>().unwrap()),
            mask,
        }
    }

    #[test]
    fn routes_are_read_in_network_order() {
        assert_eq!(
            routes(ROUTES),
            [route("0.0.0.0", 0), route("192.0.2.0", 0xFFFF_FF00)]
        );
    }

    #[test]
    fn link_is_stable_and_in_its_range() {
        let link = Link::choose("usher-default", &routes(ROUTES)).unwrap();
        assert_eq!(link, Link::choose("usher-default", &[]).unwrap());
        assert_eq!(
            (link.host().octets()[0], link.host().octets()[1] >= 128),
            (10, true)
        );
        assert_eq!(u32::from(link.node()), u32::from(link.host()) + 1);
        assert_eq!(Link::from_host(link.host()), link);
        assert_ne!(link, Link::choose("usher-other", &[]).unwrap());
    }

    #[test]
    fn network_in_use_is_skipped() {
        let first = Link::choose("n", &[]).unwrap();
        let taken = Route {
            network: first.network & 0xFFFF_0000,
            mask: 0xFFFF_0000,
        };
        let host = Route {
            network: u32::from(first.node()),
            mask: u32::MAX,
        };
        assert_ne!(Link::choose("n", &[taken]).unwrap(), first);
        assert_ne!(Link::choose("n", &[host]).unwrap(), first);
        assert!(Link::choose("n", &[route("10.0.0.0", 0xFF00_0000)]).is_err());
    }

    #[test]
    fn interface_name_fits() {
        assert!(Link::interface("usher-a-name-that-is-long").len() <= 15);
    }

    #[test]
    fn only_a_listener_counts() {
        let text = "  sl  local_address rem_address   st\n\
                    0: 0100007F:094B 00000000:0000 0A 0\n   1: 0100007F:1234 0100007F:094B 01 0\n";
        assert!(listening(text, 2379));
        assert!(!listening(text, 0x1234));
    }
}
