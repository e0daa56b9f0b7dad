//! Where a request goes: which addresses are the pod's, and what there is to say when nobody answers there.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::net::TcpStream;
use usher_client::error_chain::chain;
use usher_inspect::http::url::Host;
use usher_sys::net::{link::Links, netns::Netns, tcp};

use super::Args;
use crate::{
    data_source::node::{Node, Target},
    failure::Failure,
    network::{listener::listeners, pod_network::pod_network},
};

/// Ports that an error names.
const SHOWN: usize = 16;

/// Where a request goes.
#[derive(Debug)]
pub(super) struct Place {
    netns: Netns,
    pod: String,
    addresses: Vec<IpAddr>,
    port: u16,
    listeners: BTreeMap<u16, Vec<String>>,
}

impl Place {
    /// Looks whether the URL is one that may be asked.
    pub(super) fn of(args: &Args, node: &Node, target: &Target) -> Result<Self, Failure> {
        let pod = target.display_name();
        let what = "this would ask what listens on the node";
        let netns = pod_network(node, target, args.host_network, what)?;
        let addresses = match args.url.host() {
            Host::Localhost => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            Host::Address(address) => {
                let is_own = address.to_canonical().is_loopback() || has(&netns, address)?;
                if !is_own && !args.anywhere {
                    return Err(Failure::refused(format!(
                        "{address} is not one of {pod}; --anywhere connects there as the pod could"
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

    /// Connects to the first address at which somebody listens.
    pub(super) async fn connect(&self) -> Result<TcpStream, Failure> {
        let mut last = None;
        for address in &self.addresses {
            let family = match address {
                IpAddr::V4(_) => AddressFamily::Inet,
                IpAddr::V6(_) => AddressFamily::Inet6,
            };
            let socket = self.netns.tcp_socket(family);
            let socket = socket.map_err(|error| Failure::refused(chain(&error)))?;
            match tcp::connect(socket, *address, self.port).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = last.or(Some((*address, error))),
            }
        }
        Err(Failure::unavailable(self.unreachable(last)))
    }

    fn unreachable(&self, first: Option<(IpAddr, io::Error)>) -> String {
        let Some((address, error)) = first else {
            return "nothing to connect to".to_owned();
        };
        let at = SocketAddr::new(address, self.port);
        let pod = &self.pod;
        if error.raw_os_error() != Some(Errno::ECONNREFUSED as i32) {
            return format!("cannot connect to {at} in {pod}: {error}");
        }
        if self.listeners.contains_key(&self.port) {
            return format!(
                "{at} in {pod} refuses connections, although somebody listens at another address with that port"
            );
        }
        format!("nobody listens at {at} in {pod}; {}", self.others())
    }

    /// What is said when no answer came in time.
    pub(super) fn silent(&self, timeout: Duration) -> String {
        let owners = self.listeners.get(&self.port);
        let owners = owners.filter(|owners| !owners.is_empty());
        let who = owners.map_or_else(String::new, |owners| {
            format!(" of {}", owners.join(" and "))
        });
        format!(
            "no answer from port {}{who} in {} within {timeout:?}",
            self.port, self.pod
        )
    }

    fn others(&self) -> String {
        if self.listeners.is_empty() {
            return "it has no TCP listeners".to_owned();
        }
        let shown = self
            .listeners
            .iter()
            .take(SHOWN)
            .map(|(port, owners)| match &owners[..] {
                [] => port.to_string(),
                owners => format!("{port} ({})", owners.join(", ")),
            });
        let mut text = format!(
            "its TCP listeners: {}",
            shown.collect::<Vec<_>>().join(", ")
        );
        if self.listeners.len() > SHOWN {
            text.push_str(&format!(" and {} more", self.listeners.len() - SHOWN));
        }
        text
    }
}

/// Whether an address is one of the namespace's own: the kernel knows, also where the kubelet is away.
fn has(netns: &Netns, address: IpAddr) -> Result<bool, Failure> {
    let own = Links::open(netns)
        .and_then(|links| links.addresses())
        .map_err(|error| Failure::refused(chain(&error)))?;
    Ok(own.contains(&address.to_canonical()))
}
