//! Sockets of a network namespace. [`Sockets::dump`] lists all. A lookup finds a single one, in the way in which the
//! kernel does for an incoming packet ([sock_diag(7)](https://man7.org/linux/man-pages/man7/sock_diag.7.html),
//! [`inet_diag_find_one_icsk`](https://github.com/torvalds/linux/blob/v6.18/net/ipv4/inet_diag.c)). It reads a few hash
//! buckets, independent of the node's number of sockets, and has no effect on the socket.
//!
//! Needs no privilege. Without the modules `inet_diag` and `tcp_diag` the kernel finds nothing (`ENOENT`, as for an
//! absent socket), so [`Sockets::is_supported`] uses a dump. Requests and replies are encoded here:
//! netlink-packet-sock-diag 0.5.0 does not decode the cgroup of a socket, and its types would not be shorter than the
//! two fixed structures.

mod dump;
mod ended;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::ControlFlow,
};

use nix::errno::Errno;
use usher_core::{hold::syn::Connection, node::socket};

pub use self::{
    dump::{Dumped, Wanted, decode},
    ended::EndedSockets,
};
use crate::net::{
    netlink::{
        Protocol, Socket,
        message::{Message, Verdict},
    },
    netns::{self, Netns},
};

const BY_FAMILY: u16 = 20;

const SYN_SENT: u8 = 2;
const LISTEN: u8 = 10;

/// Index of the loopback interface in every network namespace. With this index a lookup also finds a socket that is
/// bound to the interface.
const LOOPBACK: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The socket has sent a SYN and waits for the reply.
    SynSent,
    Listens,
    Other,
}

/// A socket could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace's netlink socket failed; `EPROTONOSUPPORT` on a kernel without sock_diag.
    #[error("opening a socket to look up others")]
    Open(#[from] netns::Error),
    #[error("looking up the listener at {address}")]
    Listener {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("looking up the connection from {connection}")]
    Connection {
        connection: Connection,
        source: io::Error,
    },
    #[error("checking whether the kernel can look up sockets")]
    Support(#[source] io::Error),
    #[error("listing the {} sockets", protocol.into_str())]
    Dump {
        protocol: socket::Protocol,
        source: io::Error,
    },
    #[error("receiving notifications of ended TCP sockets")]
    Ended(#[source] io::Error),
}

/// The sockets of one network namespace.
#[derive(Debug)]
pub struct Sockets {
    socket: Socket,
}

impl Sockets {
    /// Opens a netlink socket in the namespace.
    pub fn open(netns: &Netns) -> Result<Self, Error> {
        Ok(Self {
            socket: netns.netlink(Protocol::SockDiag)?,
        })
    }

    /// Whether a connection to this port of 127.0.0.1 or ::1 would reach a listener, including one at a wildcard
    /// address.
    pub fn listens(&mut self, port: u16) -> Result<bool, Error> {
        let loopbacks: [(IpAddr, IpAddr); 2] = [
            (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()),
            (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()),
        ];
        for (own, unspecified) in loopbacks {
            let address = SocketAddr::new(own, port);
            let listener = Connection {
                source: address,
                destination: SocketAddr::new(unspecified, 0),
            };
            match self.look_up(listener, LOOPBACK) {
                Ok(Some(State::Listens)) => return Ok(true),
                Ok(_) => {}
                // The kernel has no IPv6.
                Err(error) if own.is_ipv6() && is(&error, Errno::EINVAL) => {}
                Err(source) => return Err(Error::Listener { address, source }),
            }
        }
        Ok(false)
    }

    /// The state of a connection's socket; None if there is no such socket. A socket that is bound to an interface is
    /// not found.
    pub fn state(&mut self, connection: Connection) -> Result<Option<State>, Error> {
        self.look_up(connection, 0)
            .map_err(|source| Error::Connection { connection, source })
    }

    /// Whether the kernel has the modules. Dumps the TCP sockets in none of the states, which distinguishes "no
    /// sockets" from "no module".
    pub fn is_supported(&mut self) -> Result<bool, Error> {
        let query = Query::for_all(Ipv4Addr::UNSPECIFIED.into(), socket::Protocol::Tcp, 0);
        match self.socket.dump(BY_FAMILY, &query.encode(), |_socket| {}) {
            Ok(_flags) => Ok(true),
            Err(error) if is(&error, Errno::ENOENT) => Ok(false),
            Err(error) => Err(Error::Support(error)),
        }
    }

    fn look_up(&mut self, connection: Connection, interface: u32) -> io::Result<Option<State>> {
        let query = Query {
            protocol: socket::Protocol::Tcp,
            extensions: 0,
            states: u32::MAX,
            connection,
            interface,
        };
        match self.socket.exchange(BY_FAMILY, 0, &query.encode(), state)? {
            Err(error) if is(&error, Errno::ENOENT) => Ok(None),
            found => found.map(Some),
        }
    }
}

/// A query for sockets.
#[derive(Debug, Clone, Copy)]
struct Query {
    protocol: socket::Protocol,
    /// A bit for each requested attribute.
    extensions: u8,
    /// A bit for each state.
    states: u32,
    connection: Connection,
    /// The index of an interface; 0 for any.
    interface: u32,
}

impl Query {
    /// A query for all sockets of the family of `unspecified`, for a dump.
    fn for_all(unspecified: IpAddr, protocol: socket::Protocol, states: u32) -> Self {
        let any = SocketAddr::new(unspecified, 0);
        Self {
            protocol,
            extensions: 0,
            states,
            connection: Connection {
                source: any,
                destination: any,
            },
            interface: 0,
        }
    }

    /// A `struct inet_diag_req_v2`
    /// ([inet_diag.h](https://github.com/torvalds/linux/blob/v6.18/include/uapi/linux/inet_diag.h)).
    fn encode(self) -> Vec<u8> {
        let Connection {
            source,
            destination,
        } = self.connection;
        let family = match source {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let protocol = match self.protocol {
            socket::Protocol::Tcp => libc::IPPROTO_TCP,
            socket::Protocol::Udp => libc::IPPROTO_UDP,
        };
        // The last byte is padding.
        let mut body = vec![family as u8, protocol as u8, self.extensions, 0];
        body.extend_from_slice(&self.states.to_ne_bytes());
        body.extend_from_slice(&source.port().to_be_bytes());
        body.extend_from_slice(&destination.port().to_be_bytes());
        for address in [source, destination] {
            let start = body.len();
            match address.ip() {
                IpAddr::V4(address) => body.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => body.extend_from_slice(&address.octets()),
            }
            body.resize(start + 16, 0);
        }
        body.extend_from_slice(&self.interface.to_ne_bytes());
        // Without a cookie, any socket of this connection matches.
        body.extend_from_slice(&[0xff; 8]);
        body
    }
}

/// The state in a `struct inet_diag_msg`, or the verdict on the query.
fn state(message: Message<'_>) -> ControlFlow<io::Result<State>> {
    ControlFlow::Break(match (message.verdict(), message.kind, message.body) {
        (Some(Verdict::Rejected { errno, .. }), ..) => Err(errno.into()),
        (Some(Verdict::Done), ..) => Err(io::ErrorKind::InvalidData.into()),
        (None, BY_FAMILY, [_family, SYN_SENT, ..]) => Ok(State::SynSent),
        (None, BY_FAMILY, [_family, LISTEN, ..]) => Ok(State::Listens),
        (None, BY_FAMILY, [_family, _, ..]) => Ok(State::Other),
        _ => return ControlFlow::Continue(()),
    })
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno as i32)
}
