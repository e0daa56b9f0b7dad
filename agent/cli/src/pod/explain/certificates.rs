//! The certificates of Istio's proxy, from the admin port of its Envoy on loopback in the pod's network namespace.

use std::{net::Ipv4Addr, time::Duration};

use nix::sys::socket::AddressFamily;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use usher_core::node::socket::{Socket, State};
use usher_inspect::{
    explain::Certificate,
    http::{Body, Head},
};
use usher_sys::net::tcp;

use crate::{
    data_source::node::{Node, Target},
    network::pod_network::sending_network,
};

/// Envoy's default admin port in Istio's sidecar.
const ADMIN_PORT: u16 = 15000;
const PROXY: &str = "istio-proxy";
const REQUEST: &[u8] = b"GET /certs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// Envoy replies within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(1);
const MAX_RESPONSE: usize = 256 * 1024;

/// None if the pod has no such proxy, or the proxy does not reply.
pub(super) async fn query(
    node: &Node,
    target: Option<&Target>,
    sockets: Option<&[Socket]>,
) -> Option<Vec<Certificate>> {
    let target = target?;
    let mut containers = target.containers.iter();
    containers.find(|one| one.name.as_deref() == Some(PROXY))?;
    let listens = |one: &Socket| one.state == State::Listen && one.local.port() == ADMIN_PORT;
    sockets?.iter().find(|socket| listens(socket))?;
    let netns = sending_network(node, target, false, "the request would reach the node").ok()?;
    let socket = netns.tcp_socket(AddressFamily::Inet).ok()?;
    let exchange = async {
        let address = Ipv4Addr::LOCALHOST.into();
        let stream = tcp::connect(socket, address, ADMIN_PORT).await.ok()?;
        receive(stream).await
    };
    let body = tokio::time::timeout(TIMEOUT, exchange)
        .await
        .ok()
        .flatten()?;
    Some(Certificate::parse_all(&body))
}

/// The body of the response.
async fn receive(mut stream: TcpStream) -> Option<Vec<u8>> {
    stream.write_all(REQUEST).await.ok()?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_RESPONSE).unwrap_or(u64::MAX);
    stream.take(limit).read_to_end(&mut bytes).await.ok()?;
    let head = Head::read(&bytes, false).ok()??;
    let mut body = Vec::new();
    let mut decoder = Body::new(head.framing);
    decoder
        .read(bytes.get(head.length..)?, |part| {
            body.extend_from_slice(part);
        })
        .ok()?;
    (head.status == 200).then_some(body)
}
