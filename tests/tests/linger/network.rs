//! Hosts that are connected to a pod: a client in a network namespace of its own, and the node.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use usher_tests::synthetic::Pod;
use usher_tests::topology;
use usher_tests::wait::patience;

pub(crate) const PORT: u16 = 8080;

/// A host that sends to the pod until it is stopped.
#[derive(Debug)]
pub(crate) struct Sender {
    is_stopped: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    pauses: Pauses,
    /// Returns the time of the last request.
    thread: Option<JoinHandle<Instant>>,
}

/// The pauses of a sender: the end of its last request, and the longest pause so far.
#[derive(Debug, Clone)]
pub(crate) struct Pauses(Arc<Mutex<(Instant, Duration)>>);

impl Pauses {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), Duration::ZERO))))
    }

    fn record(&self) {
        let longest = self.longest();
        *self.0.lock().unwrap() = (Instant::now(), longest);
    }

    /// The longest pause so far. It is far longer than usual when the machine runs the sender late.
    pub(crate) fn longest(&self) -> Duration {
        let (last, longest) = *self.0.lock().unwrap();
        longest.max(last.elapsed())
    }
}

/// What a sender does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// A request on a new connection each time.
    Requests,
    /// A byte on one connection each time.
    Bytes,
}

/// The network between a host and a pod.
#[derive(Debug, Clone, Copy)]
struct Cable {
    /// The interfaces.
    host: &'static str,
    pod: &'static str,
    network: u8,
}

impl Cable {
    const fn address(self, host: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 9, self.network, host))
    }

    /// Connects the calling thread's namespace to the pod.
    fn lay(self, pid: i32) {
        topology::connect(self.host, self.pod, pid.cast_unsigned()).unwrap();
        topology::enable(self.host, self.address(1), 24).unwrap();
        in_namespace_of(pid, move || {
            topology::enable(self.pod, self.address(2), 24).unwrap();
        });
    }
}

/// Runs a function on a thread in the network namespace of a process.
#[expect(clippy::disallowed_methods, reason = "the thread ends there")]
fn in_namespace_of(pid: i32, run: impl FnOnce() + Send + 'static) {
    let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let thread = thread::spawn(move || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        run();
    });
    thread.join().unwrap();
}

impl Sender {
    /// A client that sends all the time.
    pub(crate) fn client(pod: &Pod, traffic: Traffic) -> Self {
        let cable = Cable {
            host: "c0",
            pod: "p0",
            network: 0,
        };
        let every = Duration::from_millis(100);
        Self::start(pod, cable, traffic, every, true)
    }

    /// The node, which probes the pod as often as a kubelet can. Only in a machine of its own.
    pub(crate) fn prober(pod: &Pod) -> Self {
        let cable = Cable {
            host: "h0",
            pod: "p1",
            network: 1,
        };
        let every = Duration::from_secs(1);
        Self::start(pod, cable, Traffic::Requests, every, false)
    }

    fn start(
        pod: &Pod,
        cable: Cable,
        traffic: Traffic,
        every: Duration,
        is_elsewhere: bool,
    ) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let pauses = Pauses::new();
        let pid = pod.pid(crate::APP);
        let thread = thread::spawn({
            let (is_stopped, sent) = (Arc::clone(&is_stopped), Arc::clone(&sent));
            let pauses = pauses.clone();
            move || {
                if is_elsewhere {
                    unshare(CloneFlags::CLONE_NEWNET).unwrap();
                }
                cable.lay(pid);
                let to = SocketAddr::new(cable.address(2), PORT);
                let mut kept = None;
                let mut last = Instant::now();
                while !is_stopped.load(Ordering::SeqCst) {
                    last = Instant::now();
                    match traffic {
                        Traffic::Requests => request(to),
                        Traffic::Bytes => {
                            let stream = kept.get_or_insert_with(|| connect(to));
                            stream.write_all(b"x").unwrap();
                        }
                    }
                    pauses.record();
                    sent.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(every);
                }
                last
            }
        });
        let sender = Self {
            is_stopped,
            sent,
            pauses,
            thread: Some(thread),
        };
        usher_tests::synthetic::clock::eventually("traffic", || sender.sent() > 0);
        sender
    }

    /// How often it has sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    pub(crate) fn pauses(&self) -> Pauses {
        self.pauses.clone()
    }

    /// Returns how often it has sent when nothing is sent any more.
    pub(crate) fn stop_and_count(self) -> u64 {
        let sent = Arc::clone(&self.sent);
        self.stop();
        sent.load(Ordering::SeqCst)
    }

    /// Returns when nothing is sent any more, with the time of the last request: the machine may run the thread late.
    pub(crate) fn stop(mut self) -> Instant {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, patience()).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

/// The app closes the connection after its response.
fn request(to: SocketAddr) {
    let mut stream = connect(to);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: app\r\n\r\n")
        .unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"), "{response:?}");
}
