//! The interfaces, addresses and routes of a pod's network namespace, as `ip address` and `ip route` list them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

/// The kernel's main routing table (`RT_TABLE_MAIN`).
const MAIN_TABLE: u32 = 254;
/// The type of an ordinary route (`RTN_UNICAST`).
const UNICAST: &str = "unicast";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// The pod has no network namespace of its own: it shares the node's, which is not listed.
    #[serde(skip_serializing_if = "is_false")]
    pub host_network: bool,
    pub interfaces: Vec<Interface>,
    /// Routes of all tables but `local`, in the kernel's order.
    pub routes: Vec<Route>,
    /// The lists are not complete: they changed during the dump, or exceed the limit.
    #[serde(skip_serializing_if = "is_false")]
    pub incomplete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// Index in its network namespace.
    pub index: u32,
    /// Name. A pod with `CAP_NET_ADMIN` can change it.
    pub name: String,
    pub state: InterfaceState,
    /// The largest packet, in bytes.
    pub mtu: u32,
    /// Hardware type (`ARPHRD_*`): 1 is Ethernet, 772 is loopback.
    pub hardware: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Index of the other end of a veth pair, in the network namespace of that end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<u32>,
    #[serde(default)]
    pub addresses: Vec<Prefix>,
}

/// Whether an interface passes packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceState {
    Up,
    /// Enabled, but the other end is down.
    NoCarrier,
    Down,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// `0.0.0.0/0` or `::/0` for a default route.
    pub destination: Prefix,
    /// Next hop; None for a destination on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Name of the outgoing interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Priority; the lowest value wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    #[serde(default = "main_table", skip_serializing_if = "is_main_table")]
    pub table: u32,
    /// `unicast`, or what the kernel does instead, such as `blackhole`.
    #[serde(default = "unicast", skip_serializing_if = "is_unicast")]
    pub kind: String,
}

/// An address and the length of a prefix, written as `10.0.0.1/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Prefix {
    pub address: IpAddr,
    pub length: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid prefix {0:?}: expected ADDRESS/LENGTH")]
pub struct InvalidPrefix(String);

impl Route {
    /// A unicast route of the main table, on the link.
    pub fn new(destination: Prefix) -> Self {
        Self {
            destination,
            gateway: None,
            interface: None,
            source: None,
            metric: None,
            table: MAIN_TABLE,
            kind: unicast(),
        }
    }
}

impl Prefix {
    pub const fn default_route(is_ipv6: bool) -> Self {
        let address = if is_ipv6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        Self { address, length: 0 }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once('/')
            .and_then(|(address, length)| {
                let address: IpAddr = address.parse().ok()?;
                let length = length.parse().ok()?;
                let longest = if address.is_ipv4() { 32 } else { 128 };
                (length <= longest).then_some(Self { address, length })
            })
            .ok_or_else(|| InvalidPrefix(text.to_owned()))
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl TryFrom<String> for Prefix {
    type Error = InvalidPrefix;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for InterfaceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::NoCarrier => "no carrier",
            Self::Down => "down",
        })
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, mtu {}", self.name, self.state, self.mtu)?;
        if let Some(mac) = &self.mac {
            write!(f, ", mac {mac}")?;
        }
        if let Some(peer) = self.peer {
            write!(f, ", peer index {peer}")?;
        }
        self.addresses
            .iter()
            .try_for_each(|address| write!(f, ", {address}"))
    }
}

/// The notation of `ip route`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !is_unicast(&self.kind) {
            write!(f, "{} ", self.kind)?;
        }
        let Prefix { address, length } = self.destination;
        if length == 0 && address.is_unspecified() {
            f.write_str("default")?;
        } else {
            write!(f, "{}", self.destination)?;
        }
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(interface) = &self.interface {
            write!(f, " dev {interface}")?;
        }
        if let Some(source) = self.source {
            write!(f, " src {source}")?;
        }
        if let Some(metric) = self.metric {
            write!(f, " metric {metric}")?;
        }
        if !is_main_table(&self.table) {
            write!(f, " table {}", self.table)?;
        }
        Ok(())
    }
}

const fn main_table() -> u32 {
    MAIN_TABLE
}

const fn is_main_table(table: &u32) -> bool {
    *table == MAIN_TABLE
}

fn unicast() -> String {
    UNICAST.to_owned()
}

fn is_unicast(kind: &str) -> bool {
    kind == UNICAST
}

const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_parsed_and_displayed() {
        for text in ["10.7.0.2/24", "0.0.0.0/0", "fd07:1::2/64", "::/0"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        for text in ["10.7.0.2", "10.7.0.2/33", "::1/129", "/8", "x/8", ""] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert_eq!(error, InvalidPrefix(text.to_owned()));
        }
    }

    #[test]
    fn routes_have_the_notation_of_ip_route() {
        let default = Route {
            gateway: Some([10, 7, 0, 1].into()),
            interface: Some("eth0".to_owned()),
            ..Route::new(Prefix::default_route(false))
        };
        assert_eq!(default.to_string(), "default via 10.7.0.1 dev eth0");
        let blackhole = Route {
            metric: Some(1024),
            table: 100,
            kind: "blackhole".to_owned(),
            ..Route::new(prefix("fd07::/16"))
        };
        let text = "blackhole fd07::/16 metric 1024 table 100";
        assert_eq!(blackhole.to_string(), text);
    }

    #[test]
    fn network_is_the_same_after_json() {
        let network = Network {
            interfaces: vec![Interface {
                index: 2,
                name: "eth0".to_owned(),
                state: InterfaceState::NoCarrier,
                mtu: 1450,
                hardware: 1,
                mac: Some("0a:58:0a:f4:00:05".to_owned()),
                peer: Some(7),
                addresses: vec![prefix("10.244.0.5/24")],
            }],
            routes: vec![Route::new(prefix("10.244.0.0/24"))],
            ..Network::default()
        };
        let value = serde_json::to_value(&network).unwrap();
        let expected = json!({
            "interfaces": [{
                "index": 2, "name": "eth0", "state": "no-carrier", "mtu": 1450, "hardware": 1,
                "mac": "0a:58:0a:f4:00:05", "peer": 7, "addresses": ["10.244.0.5/24"],
            }],
            "routes": [{"destination": "10.244.0.0/24"}],
        });
        assert_eq!(value, expected);
        assert_eq!(serde_json::from_value::<Network>(value).unwrap(), network);
        let text = "eth0: no carrier, mtu 1450, mac 0a:58:0a:f4:00:05, peer index 7, 10.244.0.5/24";
        assert_eq!(network.interfaces[0].to_string(), text);
    }
}
