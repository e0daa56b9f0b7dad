//! Decodes `RTM_NEWROUTE` messages.

use std::net::IpAddr;

use netlink_packet_core::Parseable;
use netlink_packet_route::{
    AddressFamily,
    route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia},
};
use usher_core::node::network::{Interface, Prefix, Route};

/// The table of the node's own and broadcast addresses (`RT_TABLE_LOCAL`). `ip route` omits it too.
const LOCAL_TABLE: u32 = 255;

/// The routes of one message: a single one, or one for each next hop of a multipath route.
#[derive(Debug)]
pub(super) struct Decoded {
    route: Route,
    /// Interface index and gateway of each next hop.
    hops: Vec<(Option<u32>, Option<IpAddr>)>,
}

impl Decoded {
    pub(super) fn named(self, interfaces: &[Interface]) -> impl Iterator<Item = Route> {
        let Self { route, hops } = self;
        let name = |index: u32| {
            interfaces
                .iter()
                .find(|interface| interface.index == index)
                .map(|interface| interface.name.clone())
        };
        hops.into_iter().map(move |(index, gateway)| Route {
            gateway,
            interface: index.and_then(name),
            ..route.clone()
        })
    }
}

/// None for a message that is not a route; an inner None for an omitted route.
pub(super) fn decode(body: &[u8]) -> Option<Option<Decoded>> {
    let message = RouteMessage::parse(body).ok()?;
    let header = &message.header;
    let is_ipv6 = match header.address_family {
        AddressFamily::Inet => false,
        AddressFamily::Inet6 => true,
        _ => return Some(None),
    };
    let mut route = Route {
        table: header.table.into(),
        kind: kind(header.kind),
        ..Route::new(Prefix::default_route(is_ipv6))
    };
    let mut hops = Vec::new();
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(to) => {
                route.destination = Prefix {
                    address: ip(to)?,
                    length: header.destination_prefix_length,
                };
            }
            RouteAttribute::PrefSource(source) => route.source = ip(source),
            RouteAttribute::Priority(metric) => route.metric = Some(*metric),
            // A table beyond 255 does not fit in the header.
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::MultiPath(paths) => hops.extend(
                paths
                    .iter()
                    .map(|path| (Some(path.interface_index), gateway(&path.attributes))),
            ),
            _ => {}
        }
    }
    if route.table == LOCAL_TABLE {
        return Some(None);
    }
    if hops.is_empty() {
        let index = message
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Oif(index) => Some(*index),
                _ => None,
            });
        hops.push((index, gateway(&message.attributes)));
    }
    Some(Some(Decoded { route, hops }))
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        // An IPv4 route through an IPv6 router.
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// The names of `ip route`.
fn kind(kind: RouteType) -> String {
    match kind {
        RouteType::Unicast => "unicast".to_owned(),
        RouteType::Local => "local".to_owned(),
        RouteType::Broadcast => "broadcast".to_owned(),
        RouteType::Anycast => "anycast".to_owned(),
        RouteType::Multicast => "multicast".to_owned(),
        RouteType::BlackHole => "blackhole".to_owned(),
        RouteType::Unreachable => "unreachable".to_owned(),
        RouteType::Prohibit => "prohibit".to_owned(),
        RouteType::Throw => "throw".to_owned(),
        other => format!("type {}", u8::from(other)),
    }
}
