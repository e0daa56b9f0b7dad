//! `/healthz`, as the kubelet probes it, over and over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use usher_tests::synthetic::clock::eventually;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct HealthProbe {
    responses: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    end: Sender<()>,
    probe: JoinHandle<Duration>,
}

impl HealthProbe {
    pub(super) fn start(address: SocketAddr) -> Self {
        let (end, ended) = channel();
        let responses = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&responses);
        let probe = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            loop {
                longest = longest.max(response(address));
                count.fetch_add(1, Ordering::Relaxed);
                if ended.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return longest;
                }
            }
        });
        Self {
            responses,
            end,
            probe,
        }
    }

    /// Waits for this number of further responses.
    pub(super) fn wait(&self, responses: usize) {
        let count = || self.responses.load(Ordering::Relaxed);
        let enough = count() + responses;
        eventually("responses of /healthz", || count() >= enough);
    }

    /// Ends the probe.
    pub(super) fn longest(self) -> Duration {
        drop(self.end);
        self.probe.join().unwrap()
    }
}

/// The time of a response. A wedged agent responds with 503, after a while.
fn response(address: SocketAddr) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    begun.elapsed()
}
