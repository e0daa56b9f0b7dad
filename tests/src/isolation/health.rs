//! `/healthz`, as the kubelet probes it, over and over.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::synthetic::clock::eventually;

const WEDGED: Duration = Duration::from_secs(3600);
/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct HealthProbe {
    responses: Arc<AtomicUsize>,
    /// Dropped to end the thread.
    end: Sender<()>,
    probe: JoinHandle<Vec<Duration>>,
}

impl HealthProbe {
    /// Probes over connections that the function opens.
    ///
    /// # Panics
    ///
    /// On its thread, if a request fails.
    pub fn start(connect: impl Fn() -> TcpStream + Send + 'static) -> Self {
        let (end, ended) = channel();
        let responses = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&responses);
        let probe = std::thread::spawn(move || {
            let mut times = Vec::new();
            loop {
                times.push(response(&connect));
                count.fetch_add(1, Ordering::Relaxed);
                if ended.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return times;
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
    ///
    /// # Panics
    ///
    /// If they do not arrive.
    pub fn wait(&self, responses: usize) {
        let count = || self.responses.load(Ordering::Relaxed);
        let enough = count() + responses;
        eventually("responses of /healthz", || count() >= enough);
    }

    /// Ends the probe, and returns the time of each response.
    ///
    /// # Panics
    ///
    /// If a request failed.
    pub fn times(self) -> Vec<Duration> {
        drop(self.end);
        self.probe.join().expect("each request has a response")
    }
}

/// The time of a response. A wedged agent responds with 503, after a while, which is longer than any limit.
fn response(connect: impl Fn() -> TcpStream) -> Duration {
    let begun = Instant::now();
    let mut stream = connect();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream
        .write_all(request.as_bytes())
        .expect("the agent reads the request");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .expect("the agent responds");
    if response.starts_with("HTTP/1.1 200") {
        begun.elapsed()
    } else {
        WEDGED
    }
}
