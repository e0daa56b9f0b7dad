//! The destination of a request: checks that the address is the pod's, connects, and explains a failure.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::net::TcpStream;
use usher_client::error_chain::chain;
use usher_inspect::{http::url::Host, text::list};
use usher_sys::net::{link::Links, netns::Netns, tcp};

use super::Args;
use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
    network::{
        listener::{self, listeners},
        pod_network::sending_network,
    },
};

/// Number of listening ports that an error names.
const MAX_LISTED: usize = 16;

#[derive(Debug)]
pub(super) struct Destination {
    netns: Arc<Netns>,
    pod: String,
    addresses: Vec<IpAddr>,
    port: u16,
    listeners: BTreeMap<u16, Vec<String>>,
}

impl Destination {
    /// Checks that the URL may be requested.
    pub(super) fn new(args: &Args, node: &Node, target: &Target) -> Result<Self, Failure> {
        let pod = target.pod.display_name();
        let effect = "the request would reach the ports of the node";
        let netns = sending_network(node, target, args.host_network, effect)?;
        let addresses = match args.url.host() {
            Host::Localhost => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Host::Address(address) => {
                let is_own = address.to_canonical().is_loopback() || has(&netns, address)?;
                if !is_own && !args.anywhere {
                    return Err(Failure::refused(format!(
                        "{address} is not an address of {pod}; use --anywhere to connect to it as the pod would"
                    )));
                }
                vec![address]
            }
        };
        Ok(Self {
            netns,
            pod,
            addresses,
            port: args.url.port(),
            listeners: listeners(&node.proc, target),
        })
    }

    /// Connects to the first address that accepts the connection.
    pub(super) async fn connect(&self) -> Result<TcpStream, Failure> {
        let mut last = None;
        for address in &self.addresses {
            let family = match address {
                IpAddr::V4(_) => AddressFamily::Inet,
                IpAddr::V6(_) => AddressFamily::Inet6,
            };
            let socket = match self.netns.tcp_socket(family) {
                Ok(socket) => socket,
                Err(error) if error.is_unsupported_family() && last.is_some() => continue,
                Err(error) => return Err(Failure::refused(chain(&error))),
            };
            match tcp::connect(socket, *address, self.port).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = last.or(Some((*address, error))),
            }
        }
        Err(Failure::unavailable(self.unreachable(last)))
    }

    fn unreachable(&self, first: Option<(IpAddr, io::Error)>) -> String {
        let Some((address, error)) = first else {
            return "no address to connect to".to_owned();
        };
        let at = SocketAddr::new(address, self.port);
        let pod = &self.pod;
        if error.raw_os_error() != Some(Errno::ECONNREFUSED as i32) {
            return format!("cannot connect to {at} in {pod}: {error}");
        }
        if self.listeners.contains_key(&self.port) {
            return format!(
                "{at} in {pod} refuses connections; another address of the pod has a listener on this port"
            );
        }
        format!("no listener on {at} in {pod}; {}", self.others())
    }

    pub(super) fn timeout_text(&self, timeout: Duration) -> String {
        let owners = self.listeners.get(&self.port);
        let owners = owners.filter(|owners| !owners.is_empty());
        let owner = owners.map_or_else(String::new, |owners| format!(" ({})", owners.join(", ")));
        format!(
            "no response from port {}{owner} in {} within {timeout:?}",
            self.port, self.pod
        )
    }

    fn others(&self) -> String {
        match &listener::texts(&self.listeners)[..] {
            [] => "the pod has no TCP listeners".to_owned(),
            ports => format!(
                "TCP listeners of the pod: {}",
                list::first(ports, MAX_LISTED)
            ),
        }
    }
}

/// Whether the namespace has this address. The kernel reports it even without the kubelet.
fn has(netns: &Netns, address: IpAddr) -> Result<bool, Failure> {
    let own = Links::open(netns)
        .and_then(|links| links.addresses())
        .map_err(|error| Failure::refused(chain(&error)))?;
    Ok(own.contains(&address.to_canonical()))
}
