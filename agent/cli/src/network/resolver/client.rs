//! One query to one server: a datagram, then a TCP connection if the reply does not fit into a datagram.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io, net,
    net::SocketAddr,
    time::{Duration, Instant},
};

use nix::{errno::Errno, sys::socket::AddressFamily};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UdpSocket,
    time::timeout,
};
use usher_client::error_chain::chain;
use usher_inspect::dns::{Answer, Exchange, Malformed, Outcome, Query, Transport};
use usher_sys::net::{
    netns::{self, Netns},
    tcp,
};

/// More than a server sends in one datagram without EDNS.
const DATAGRAM: usize = 4096;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no reply")]
    Timeout,
    #[error(transparent)]
    Socket(#[from] netns::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Error {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Timeout => Outcome::Timeout,
            Self::Io(error) if error.raw_os_error() == Some(Errno::ECONNREFUSED as i32) => {
                Outcome::PortUnreachable
            }
            Self::Io(_) | Self::Socket(_) => Outcome::Unreachable,
            Self::Malformed(_) => Outcome::Malformed,
        }
    }

    /// The error text, unless the outcome is sufficient.
    fn detail(&self) -> Option<String> {
        match self.outcome() {
            Outcome::Timeout | Outcome::PortUnreachable => None,
            _ => Some(chain(self)),
        }
    }
}

/// Sends a query, and receives the reply within this time.
pub(super) async fn exchange(
    netns: &Netns,
    query: &Query,
    server: SocketAddr,
    limit: Duration,
) -> Exchange {
    let start = Instant::now();
    let mut transport = Transport::Udp;
    let mut reply = within(limit, by_udp(netns, query, server)).await;
    if reply.as_ref().is_ok_and(|answer| answer.is_truncated) {
        transport = Transport::Tcp;
        let left = limit.saturating_sub(start.elapsed());
        reply = within(left, by_tcp(netns, query, server)).await;
    }
    let (outcome, error) = match &reply {
        Ok(answer) => (answer.outcome, None),
        Err(error) => (error.outcome(), error.detail()),
    };
    let (addresses, alias_of) = match reply {
        Ok(answer) => (answer.addresses, answer.alias_of),
        Err(_) => (Vec::new(), None),
    };
    Exchange {
        queried: query.name.to_string(),
        record: query.record,
        server,
        transport,
        outcome,
        addresses,
        alias_of,
        error,
        time_us: micros(start.elapsed()),
    }
}

async fn within(
    limit: Duration,
    reply: impl Future<Output = Result<Answer, Error>>,
) -> Result<Answer, Error> {
    timeout(limit, reply).await.unwrap_or(Err(Error::Timeout))
}

async fn by_udp(netns: &Netns, query: &Query, server: SocketAddr) -> Result<Answer, Error> {
    let socket = netns.udp_socket(family(server))?;
    let socket = UdpSocket::from_std(net::UdpSocket::from(socket))?;
    // The kernel drops datagrams of other senders, and reports an unreachable port.
    socket.connect(server).await?;
    socket.send(&query.encode()).await?;
    let mut bytes = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut bytes).await?;
        match query.answer(&bytes[..length]) {
            // A late reply to another query.
            Err(Malformed::OtherQuery) => {}
            answer => return Ok(answer?),
        }
    }
}

async fn by_tcp(netns: &Netns, query: &Query, server: SocketAddr) -> Result<Answer, Error> {
    let socket = netns.tcp_socket(family(server))?;
    let mut stream = tcp::connect(socket, server.ip(), server.port()).await?;
    let message = query.encode();
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let sent = [&length.to_be_bytes()[..], &message].concat();
    stream.write_all(&sent).await?;
    let mut bytes = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut bytes).await?;
    Ok(query.answer(&bytes)?)
}

pub(crate) fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// An unpredictable number: the standard library seeds its hashers with the kernel's random numbers.
pub(super) fn random_id() -> u16 {
    let [high, low, ..] = RandomState::new().build_hasher().finish().to_be_bytes();
    u16::from_be_bytes([high, low])
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
