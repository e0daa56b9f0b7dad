//! `/healthz`, as the kubelet probes it, over and over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct HealthProbe {
    enough: Arc<AtomicBool>,
    probe: JoinHandle<Duration>,
}

impl HealthProbe {
    pub(crate) fn start(address: SocketAddr) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&enough);
        let probe = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                longest = longest.max(response(address));
                std::thread::sleep(PAUSE);
            }
            longest
        });
        Self { enough, probe }
    }

    /// Ends the probe.
    pub(crate) fn longest(self) -> Duration {
        self.enough.store(true, Ordering::Relaxed);
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
