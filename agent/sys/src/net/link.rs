//! Interfaces, addresses and routes of a network namespace
//! ([rtnetlink(7)](https://man7.org/linux/man-pages/man7/rtnetlink.7.html)).
//!
//! It sends one dump each of `RTM_GETLINK`, `RTM_GETADDR` and `RTM_GETROUTE` over a netlink socket of the namespace.
//! netlink-packet-route decodes the bodies. Links are decoded attribute by attribute, so that an unknown attribute of a
//! newer kernel costs that attribute and not the interface. The rtnetlink client would need a connection task and its
//! own socket; only the tests use it, to create topologies.
//!
//! Needs no privilege in the namespace. The owner of the namespace chooses names and the number of entries, so the
//! lists are bounded, and [`Network::incomplete`] reports omissions.

mod route;

use std::{io, net::IpAddr};

use netlink_packet_core::{Emitable, NlaBuffer, NlasIterator, Parseable, ParseableParametrized};
use netlink_packet_route::{
    AddressFamily,
    address::{AddressAttribute, AddressHeader},
    link::{LinkAttribute, LinkFlags, LinkHeader, LinkLayerType},
};
use usher_core::node::network::{Interface, InterfaceState, Network, Prefix, Route};

use crate::net::{
    netlink::{Protocol, Socket, message},
    netns::{self, Netns},
};

/// `RTM_GETLINK`, `RTM_GETADDR` and `RTM_GETROUTE`: the dumps.
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
/// The message of an object has the type of its request minus 2 (`RTM_NEWLINK` is 16).
const OBJECT: u16 = 2;
/// Length of `struct ifinfomsg`, the longest of the fixed headers. A longer header than necessary is valid. With a
/// shorter one the kernel ignores the address family.
const FIXED: usize = 16;

/// Maximum length of a list. A pod's namespace has fewer than ten objects.
const LIMIT: usize = 4096;
/// Attempts to read a list that changes during the dump.
const ATTEMPTS: usize = 3;

/// The network of a namespace could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening a socket to list interfaces, addresses and routes")]
    Open(#[from] netns::Error),
    #[error("listing {objects}")]
    Dump {
        /// `interfaces`, `addresses` or `routes`.
        objects: &'static str,
        source: io::Error,
    },
}

/// A list, and whether it is complete.
#[derive(Debug)]
struct List<T> {
    items: Vec<T>,
    is_complete: bool,
}

/// Lists interfaces, addresses and routes of one network namespace.
#[derive(Debug)]
pub struct Links {
    socket: Socket,
}

impl Links {
    /// Opens a netlink socket in the namespace.
    pub fn open(netns: &Netns) -> Result<Self, Error> {
        Ok(Self {
            socket: netns.netlink(Protocol::Route)?,
        })
    }

    /// Lists everything.
    pub fn network(&self) -> Result<Network, Error> {
        let mut links = self.links()?;
        let addresses = self.assigned()?;
        let routes = self.dump("routes", GET_ROUTE, route::decode)?;
        for (index, prefix) in addresses.items {
            if let Some(link) = links.items.iter_mut().find(|link| link.index == index) {
                link.addresses.push(prefix);
            }
        }
        let routes_of_message = |message: route::Decoded| message.named(&links.items);
        Ok(Network {
            routes: routes
                .items
                .into_iter()
                .flat_map(routes_of_message)
                .collect::<Vec<Route>>(),
            interfaces: links.items,
            incomplete: !(links.is_complete && addresses.is_complete && routes.is_complete),
            ..Network::default()
        })
    }

    /// Lists the interfaces, without their addresses.
    pub fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        self.links().map(|list| list.items)
    }

    /// Lists the addresses of all interfaces.
    pub fn addresses(&self) -> Result<Vec<IpAddr>, Error> {
        let addresses = self.assigned()?.items.into_iter();
        Ok(addresses.map(|(_index, prefix)| prefix.address).collect())
    }

    fn links(&self) -> Result<List<Interface>, Error> {
        let mut list = self.dump("interfaces", GET_LINK, interface)?;
        list.items.sort_by_key(|interface| interface.index);
        Ok(list)
    }

    fn assigned(&self) -> Result<List<(u32, Prefix)>, Error> {
        self.dump("addresses", GET_ADDRESS, address)
    }

    /// Dumps all objects of a kind. `decode` returns None for a message that it cannot decode, and an inner None for an
    /// unwanted object.
    fn dump<T>(
        &self,
        objects: &'static str,
        request: u16,
        decode: impl Fn(&[u8]) -> Option<Option<T>>,
    ) -> Result<List<T>, Error> {
        let failed = |source| Error::Dump { objects, source };
        let mut list = self.dump_once(request, &decode).map_err(failed)?;
        for _ in 1..ATTEMPTS {
            if list.is_complete || list.items.len() >= LIMIT {
                break;
            }
            list = self.dump_once(request, &decode).map_err(failed)?;
        }
        Ok(list)
    }

    fn dump_once<T>(
        &self,
        request: u16,
        decode: impl Fn(&[u8]) -> Option<Option<T>>,
    ) -> io::Result<List<T>> {
        let mut list = List {
            items: Vec::new(),
            is_complete: true,
        };
        // Reads the dump to its end, even beyond the limit: the kernel makes one dump at a time for a socket.
        let flags =
            self.socket
                .dump(request, &[0; FIXED], |message| match decode(message.body) {
                    Some(object) if message.kind + OBJECT == request => match object {
                        Some(object) if list.items.len() < LIMIT => list.items.push(object),
                        Some(_beyond) => list.is_complete = false,
                        None => {}
                    },
                    _ => list.is_complete = false,
                })?;
        list.is_complete &= flags & message::INTERRUPTED == 0;
        Ok(list)
    }
}

fn interface(body: &[u8]) -> Option<Option<Interface>> {
    let header = LinkHeader::parse(body).ok()?;
    // Bridges list their ports a second time under their own family.
    if header.interface_family != AddressFamily::Unspec {
        return Some(None);
    }
    let mut name = None;
    let mut interface = Interface {
        index: header.index,
        name: String::new(),
        state: state(header.flags),
        mtu: 0,
        hardware: header.link_layer_type.into(),
        mac: None,
        peer: None,
        addresses: Vec::new(),
    };
    for attribute in NlasIterator::new(body.get(header.buffer_len()..)?).map_while(Result::ok) {
        match LinkAttribute::parse_with_param(&attribute, header.interface_family) {
            Ok(LinkAttribute::IfName(text)) => name = Some(text),
            Ok(LinkAttribute::Mtu(mtu)) => interface.mtu = mtu,
            // Loopback has 00:00:00:00:00:00, and a tunnel the address of its end.
            Ok(LinkAttribute::Address(bytes)) if header.link_layer_type == LinkLayerType::Ether => {
                interface.mac = Some(mac(&bytes));
            }
            Ok(LinkAttribute::Link(index)) if index != header.index => interface.peer = Some(index),
            Ok(_other) => {}
            Err(_unknown_layout) => {}
        }
    }
    interface.name = name?;
    Some(Some(interface))
}

fn state(flags: LinkFlags) -> InterfaceState {
    match (
        flags.contains(LinkFlags::Up),
        flags.contains(LinkFlags::LowerUp),
    ) {
        (true, true) => InterfaceState::Up,
        (true, false) => InterfaceState::NoCarrier,
        (false, _) => InterfaceState::Down,
    }
}

fn mac(bytes: &[u8]) -> String {
    let octets: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    octets.join(":")
}

/// Index of the interface, and its address. `IFA_LOCAL` is the interface's address. `IFA_ADDRESS` is the peer's on a
/// point-to-point link, and the only address of an IPv6 interface.
fn address(body: &[u8]) -> Option<Option<(u32, Prefix)>> {
    let header = AddressHeader::parse(body).ok()?;
    let (mut local, mut address) = (None, None);
    for attribute in NlasIterator::new(body.get(header.buffer_len()..)?).map_while(Result::ok) {
        match address_attribute(&attribute) {
            Some(AddressAttribute::Local(own)) => local = Some(own),
            Some(AddressAttribute::Address(peer)) => address = Some(peer),
            _ => {}
        }
    }
    let prefix = local.or(address).map(|address| Prefix {
        address,
        length: header.prefix_len,
    });
    Some(prefix.map(|prefix| (header.index, prefix)))
}

fn address_attribute(attribute: &NlaBuffer<&[u8]>) -> Option<AddressAttribute> {
    AddressAttribute::parse(attribute).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::net::netlink::attribute;

    proptest! {
        #[test]
        fn decoders_accept_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _link = interface(&bytes);
            let _address = address(&bytes);
            let _route = route::decode(&bytes);
        }

        /// With a valid header the decoder reaches the attributes.
        #[test]
        fn decoders_accept_any_attributes(
            family in prop_oneof![Just(0_u8), Just(2), Just(10)],
            attributes in proptest::collection::vec(
                (0_u16..64, proptest::collection::vec(any::<u8>(), 0..24)), 0..8,
            ),
        ) {
            let mut bytes = vec![family];
            for (fixed, decode) in [
                (FIXED, (|body| drop(interface(body))) as fn(&[u8])),
                (8, |body| {
                    let _address = address(body);
                }),
                (12, |body| drop(route::decode(body))),
            ] {
                bytes.truncate(1);
                bytes.resize(fixed, 0);
                for (kind, value) in &attributes {
                    attribute::put(&mut bytes, *kind, value);
                }
                decode(&bytes);
            }
        }
    }

    #[test]
    fn new_namespace_has_loopback_only() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        let netns = Netns::scratch().unwrap();
        let network = Links::open(&netns).unwrap().network().unwrap();
        let [loopback] = &network.interfaces[..] else {
            panic!("{network:?}");
        };
        assert_eq!(loopback.to_string(), "lo: down, mtu 65536");
        assert_eq!((loopback.index, loopback.hardware), (1, 772));
        assert_eq!(network.routes, []);
        assert!(!network.incomplete);
    }
}
