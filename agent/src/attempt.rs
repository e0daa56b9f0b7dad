//! One attempt to make a sidecar quit.
//!
//! Everything that names the sidecar is checked again right before: its init
//! process must be alive by pidfd, and the network namespace must be the one
//! that the container was started in, and not the host's. The request goes to
//! loopback through a socket of that namespace; the namespace itself is not
//! entered here.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use http_body_util::Empty;
use hyper::{Request, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use nix::{errno::Errno, sys::signal, sys::socket::AddressFamily};
use tokio::net::TcpSocket;
use usher_core::{
    event::Outcome,
    id::NetnsId,
    step::{Signal, Step},
};
use usher_sys::{container::Init, netns::Netns, proc::ProcRoot};

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

/// Tries `step` with the sidecar whose init process is `init`.
pub(crate) async fn attempt(host: &Host, init: &Init, step: Step, limit: Duration) -> Outcome {
    match step {
        Step::Signal(Signal::Term) => terminate(init),
        Step::Post { port, path } => {
            let request = post(host, init, port, path);
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

async fn post(host: &Host, init: &Init, port: u16, path: &'static str) -> Outcome {
    let netns = Netns::of_process(&host.proc, init.pidfd.pid());
    // The order matters: a process that is alive now had its number when its
    // namespace was opened.
    if !init.pidfd.is_alive() {
        return Outcome::Gone;
    }
    let netns = match netns {
        Ok(netns) if netns.id() == host.netns => {
            return Outcome::Failed("it is in the host's network namespace".to_owned());
        }
        Ok(netns) if netns.id() != init.netns => {
            return Outcome::Failed(format!(
                "it is in {}, and was started in {}",
                netns.id(),
                init.netns
            ));
        }
        Ok(netns) => netns,
        Err(error) => return Outcome::Failed(chain(&error)),
    };
    for (family, address) in LOOPBACK {
        let socket = match netns.tcp_socket(family) {
            Ok(socket) => socket,
            Err(error) => return Outcome::Failed(chain(&error)),
        };
        let socket = TcpSocket::from_std_stream(TcpStream::from(socket));
        match socket.connect(SocketAddr::new(address, port)).await {
            Ok(stream) => return request(stream, port, path).await,
            Err(error) if nobody_listens(&error) => {}
            Err(error) => return Outcome::Failed(format!("connecting to port {port}: {error}")),
        }
    }
    Outcome::Refused
}

/// Refused, or the namespace has no address of this family.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ECONNREFUSED | Errno::EADDRNOTAVAIL | Errno::ENETUNREACH)
    )
}

async fn request(stream: tokio::net::TcpStream, port: u16, path: &'static str) -> Outcome {
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
