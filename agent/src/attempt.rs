//! One attempt to make a sidecar quit.
//!
//! Everything that names the sidecar is checked again right before: its init
//! process must be alive by pidfd, and the network namespace must be the one
//! that the container was started in, and not the host's. The request goes to
//! loopback through a socket of that namespace; the namespace itself is not
//! entered here.
//!
//! The first socket is opened when the sidecar starts, since opening one takes
//! a thread that has to be started and waited for. It keeps the namespace alive
//! no longer than the sidecar does: it is closed when that ends.

use std::{
    io,
    net::{self, IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use http_body_util::Empty;
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use nix::{
    errno::Errno,
    sys::{
        signal,
        socket::{self, AddressFamily, SockaddrStorage},
    },
};
use tokio::net::TcpStream;
use usher_core::{
    event::Outcome,
    id::NetnsId,
    step::{Signal, Step},
};
use usher_sys::{
    container::Init,
    netns::{self, Netns},
    proc::ProcRoot,
};

use crate::telemetry::chain;

/// A sidecar's answer is a status line and a few headers; more is not read.
const ANSWER_BYTES: usize = 16 * 1024;
/// Where sidecars listen for it: most on both, some on one of them.
const LOOPBACK: [(AddressFamily, IpAddr); 2] = [
    (AddressFamily::Inet, IpAddr::V4(Ipv4Addr::LOCALHOST)),
    (AddressFamily::Inet6, IpAddr::V6(Ipv6Addr::LOCALHOST)),
];

/// What attempts need to know of the host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) proc: ProcRoot,
    /// The host's own network namespace: never a pod's.
    pub(crate) netns: NetnsId,
}

/// A TCP socket in a sidecar's network namespace, and where it is to connect
/// to.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    loopback: IpAddr,
}

/// Opens the first socket for the sidecar whose init process is `init`.
pub(crate) fn prepare(host: &Host, init: &Init) -> Result<Socket, Outcome> {
    let [first, _second] = LOOPBACK;
    open(host, init, first)
}

/// Tries `step` with the sidecar whose init process is `init`.
pub(crate) async fn attempt(
    host: &Host,
    init: &Init,
    prepared: Option<Socket>,
    step: Step,
    limit: Duration,
) -> Outcome {
    match step {
        Step::Signal(Signal::Term) => terminate(init),
        Step::Post { port, path } => {
            let request = post(host, init, prepared, port, path);
            tokio::time::timeout(limit, request)
                .await
                .unwrap_or(Outcome::TimedOut)
        }
    }
}

fn terminate(init: &Init) -> Outcome {
    match init.pidfd.signal(signal::Signal::SIGTERM) {
        Ok(()) => Outcome::Signalled,
        Err(gone) if gone.is_gone() => Outcome::Gone,
        Err(error) => Outcome::Failed(chain(&error)),
    }
}

async fn post(
    host: &Host,
    init: &Init,
    mut prepared: Option<Socket>,
    port: u16,
    path: &'static str,
) -> Outcome {
    for place in LOOPBACK {
        if !init.pidfd.is_alive() {
            return Outcome::Gone;
        }
        let socket = match prepared.take().map_or_else(|| open(host, init, place), Ok) {
            Ok(socket) => socket,
            Err(outcome) => return outcome,
        };
        match connect(socket, port).await {
            Ok(stream) => return request(stream, port, path).await,
            Err(error) if nobody_listens(&error) => {}
            Err(error) => return Outcome::Failed(format!("connecting to port {port}: {error}")),
        }
    }
    Outcome::Refused
}

/// Connects. On loopback the handshake is over when the system call returns, so
/// this asks before it waits: waiting is a turn of the event loop, which takes
/// longer than the handshake.
async fn connect(socket: Socket, port: u16) -> io::Result<TcpStream> {
    let address = SockaddrStorage::from(SocketAddr::new(socket.loopback, port));
    match socket::connect(socket.fd.as_raw_fd(), &address) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from_std(net::TcpStream::from(socket.fd))?;
    while stream.peer_addr().is_err() {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        stream.writable().await?;
    }
    Ok(stream)
}

fn open(host: &Host, init: &Init, place: (AddressFamily, IpAddr)) -> Result<Socket, Outcome> {
    let (family, loopback) = place;
    let netns = Netns::of_process(&host.proc, init.pidfd.pid());
    // The order matters: a process that is alive now had its number when its
    // namespace was opened.
    if !init.pidfd.is_alive() {
        return Err(Outcome::Gone);
    }
    let failed = |error: netns::Error| Outcome::Failed(chain(&error));
    let netns = netns.map_err(failed)?;
    let why = if netns.id() == host.netns {
        "it is in the host's network namespace".to_owned()
    } else if netns.id() != init.netns {
        format!("it is in {}, started in {}", netns.id(), init.netns)
    } else {
        let fd = netns.tcp_socket(family).map_err(failed)?;
        return Ok(Socket { fd, loopback });
    };
    Err(Outcome::Failed(why))
}

/// Refused, or the namespace has no address of this family.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ECONNREFUSED | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH)
    )
}

async fn request(stream: TcpStream, port: u16, path: &'static str) -> Outcome {
    let request = Request::post(path)
        .header(header::HOST, format!("localhost:{port}"))
        .header(header::CONNECTION, "close")
        .header(header::CONTENT_LENGTH, 0)
        .body(Empty::<Bytes>::new());
    let request = match request {
        Ok(request) => request,
        Err(error) => return Outcome::Failed(chain(&error)),
    };
    let handshake = http1::Builder::new()
        .max_buf_size(ANSWER_BYTES)
        .handshake(TokioIo::new(stream))
        .await;
    let (mut sender, connection) = match handshake {
        Ok(parts) => parts,
        Err(error) => return Outcome::Failed(chain(&error)),
    };
    let answer = sender.send_request(request);
    tokio::pin!(answer);
    let answer = tokio::select! {
        biased;
        answer = &mut answer => answer,
        // Polling the connection is what moves the bytes; it may end with the
        // answer in hand.
        _closed = connection => answer.await,
    };
    match answer {
        Ok(answer) if answer.status().is_success() => Outcome::Accepted,
        Ok(answer) => Outcome::Rejected(answer.status().as_u16()),
        Err(error) if error.is_parse() => Outcome::Failed(chain(&error)),
        // Closed or reset with the request on its way: that is how a quitting
        // process looks, too.
        Err(_closed) => Outcome::NoReply,
    }
}
