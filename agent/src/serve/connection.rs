//! Connections of the listeners for probes and metrics, which need no authentication.
//!
//! The number of connections is limited, and each ends after one request or a deadline. At the limit a new connection
//! replaces the oldest one without a request, so that silent clients cannot block others. On the network each client
//! has its own limit, at which its new connections are refused, so that it can only block itself.

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use hyper::{
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use usher_client::error_chain::chain;

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 64;
/// Connections of one network client at the same time.
const MAX_OF_A_CLIENT: usize = 8;
/// Maximum duration of a connection. The slowest response takes 2 s.
const LONGEST: Duration = Duration::from_secs(5);
/// Timeout for the head of a request.
const HEAD: Duration = Duration::from_secs(1);
/// Limit of a request's head in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
/// Wait after a failed accept: no descriptors are left.
const PAUSE: Duration = Duration::from_secs(1);

/// Binds an address. Needs no runtime. Connections are queued until [`serve`] runs.
///
/// # Errors
/// Fails also if another agent uses the port.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The clients that can connect to a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// Processes of the node, which all have the same address.
    Node,
    Network,
}

/// A connection that is open, or was when the list was last updated.
#[derive(Debug)]
struct Connection {
    client: IpAddr,
    task: AbortHandle,
    has_request: Arc<AtomicBool>,
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, router: Router, clients: Clients) {
    let routes = TowerToHyperService::new(router);
    let mut open = VecDeque::with_capacity(MAX_CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let client = client(peer.ip());
                if has_room(&mut open, client, clients) {
                    open.push_back(spawn(stream, client, routes.clone()));
                }
                // Reads a request that has arrived before the next connection can replace this one.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "could not accept a connection for probes or metrics");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The client at an address. An IPv6 host may use all addresses of its /64.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

/// Whether to accept a connection of this client. At the limit, drops another connection.
fn has_room(open: &mut VecDeque<Connection>, client: IpAddr, clients: Clients) -> bool {
    open.retain(|connection| !connection.task.is_finished());
    let of_client = open.iter().filter(|open| open.client == client).count();
    if clients == Clients::Network && of_client >= MAX_OF_A_CLIENT {
        return false;
    }
    if open.len() >= MAX_CONNECTIONS {
        let is_silent = |connection: &Connection| !connection.has_request.load(Ordering::Relaxed);
        let oldest = open.iter().position(is_silent).unwrap_or(0);
        if let Some(connection) = open.remove(oldest) {
            connection.task.abort();
        }
    }
    true
}

fn spawn(stream: TcpStream, client: IpAddr, routes: TowerToHyperService<Router>) -> Connection {
    let has_request = Arc::new(AtomicBool::new(false));
    let received = Arc::clone(&has_request);
    let respond = service_fn(move |request| {
        received.store(true, Ordering::Relaxed);
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false)
        .max_buf_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), respond);
    let task = tokio::spawn(async {
        // A client that closes early, or sends an invalid request, gets no response.
        drop(tokio::time::timeout(LONGEST, connection).await);
    });
    Connection {
        client,
        task: task.abort_handle(),
        has_request,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn connection(client: IpAddr) -> Connection {
        let task = tokio::spawn(std::future::pending::<()>());
        Connection {
            client,
            task: task.abort_handle(),
            has_request: Arc::default(),
        }
    }

    #[tokio::test]
    async fn newest_connection_of_a_client_with_many_is_refused() {
        let [many, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let mut open: VecDeque<_> = (0..MAX_OF_A_CLIENT).map(|_| connection(many)).collect();
        assert!(!has_room(&mut open, many, Clients::Network));
        assert!(has_room(&mut open, other, Clients::Network));
        assert!(has_room(&mut open, many, Clients::Node));
        assert_eq!(open.len(), MAX_OF_A_CLIENT, "none was replaced");
    }

    #[tokio::test]
    async fn new_connection_replaces_the_oldest_without_a_request() {
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let numbers = 0..u8::try_from(MAX_CONNECTIONS).unwrap();
        let mut open: VecDeque<_> = numbers.map(|last| connection(address(last))).collect();
        open[0].has_request.store(true, Ordering::Relaxed);
        assert!(has_room(&mut open, address(200), Clients::Network));
        let left: Vec<_> = open.iter().take(2).map(|open| open.client).collect();
        assert_eq!(left, [address(0), address(2)]);
    }

    /// Serves without routes, and sends this to it. Returns all of the response.
    async fn response(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(serve(listener, Router::new(), Clients::Network));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request).await.unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).await.unwrap();
        served.abort();
        response
    }

    #[tokio::test]
    async fn head_of_more_than_16_kib_is_refused() {
        let head = |length: usize| {
            let value = "a".repeat(length);
            format!("GET / HTTP/1.1\r\nhost: a\r\nx: {value}\r\n\r\n").into_bytes()
        };
        let fits = response(&head(LONGEST_HEAD - 100)).await;
        assert!(fits.starts_with("HTTP/1.1 404"), "{fits}");
        let refused = response(&head(LONGEST_HEAD)[..LONGEST_HEAD]).await;
        assert!(refused.starts_with("HTTP/1.1 431"), "{refused}");
    }

    #[tokio::test]
    async fn head_without_an_end_is_dropped() {
        // A busy machine may run the test late.
        for _ in 0..3 {
            let begun = std::time::Instant::now();
            assert_eq!(response(b"GET / HTTP/1.1\r\nhost: a\r\n").await, "");
            let took = begun.elapsed();
            assert!(took >= HEAD, "{took:?}");
            if took < LONGEST {
                return;
            }
        }
        panic!("only the limit of a connection ends it");
    }

    #[test]
    fn addresses_of_a_host_are_one_client() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
