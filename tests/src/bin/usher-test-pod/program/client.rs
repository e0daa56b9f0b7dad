//! An app that connects at its first instruction.
//!
//! One thread starts all connections before it waits for any of them
//! (`connect` of a non-blocking socket, then poll), so that each time
//! is the kernel's and does not depend on scheduling. The app prints nothing before
//! all of them are complete.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, socket, sockopt,
};
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::{Client, End, Wait};

use crate::{BROKEN, program::app, say, say_running};

/// The number of times in one line, which has to stay below `PIPE_BUF`.
const TIMES: usize = 100;
/// The timeout of a response over loopback.
const ANSWER: Duration = Duration::from_secs(10);

/// Connects and exits.
pub(crate) fn run(client: &Client) -> ExitCode {
    let main_ns = monotonic_ns();
    say_running();
    if let Some(wait) = &client.wait {
        wait_for(wait);
    }
    std::thread::sleep(client.starts_for);
    let outcome = if client.datagram {
        ask(client)
    } else {
        connect_all(client)
    };
    say(&format!("main {main_ns}"));
    let well = match outcome {
        Ok(outcome) => outcome.report(),
        Err(error) => {
            say(&format!("failed client: {error}"));
            return ExitCode::from(BROKEN);
        }
    };
    if client.stays {
        return app::app(End::OnCommand);
    }
    ExitCode::from(u8::from(!well && !client.shrugs))
}

#[derive(Default)]
struct Outcome {
    connected: Vec<u64>,
    answered: Vec<u64>,
    failed: Vec<(Errno, u64)>,
    reached: Vec<String>,
}

impl Outcome {
    /// Prints the results; true if all connections succeeded.
    fn report(mut self) -> bool {
        for (what, times) in [("answered", &self.answered), ("connected", &self.connected)] {
            for times in times.chunks(TIMES) {
                let times: Vec<String> = times.iter().map(u64::to_string).collect();
                say(&format!("{what} {}", times.join(" ")));
            }
        }
        for (errno, at) in &self.failed {
            say(&format!("failed-to-connect {} {at}", *errno as i32));
        }
        self.reached.sort();
        self.reached.dedup();
        for text in &self.reached {
            say(&format!("reached {text}"));
        }
        self.failed.is_empty()
    }
}

fn connect_all(client: &Client) -> Result<Outcome, Errno> {
    let mut outcome = Outcome::default();
    let mut waiting = Vec::new();
    for _ in 0..client.connections {
        match begin(client.to) {
            Ok(socket) => waiting.push(socket),
            Err(errno) => outcome.failed.push((errno, monotonic_ns())),
        }
    }
    let mut made = Vec::new();
    while !waiting.is_empty() {
        let mut polled: Vec<PollFd<'_>> = waiting
            .iter()
            .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLOUT))
            .collect();
        poll(&mut polled, PollTimeout::NONE)?;
        let now = monotonic_ns();
        let over: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let mut over = over.into_iter();
        let (ended, still) = waiting
            .into_iter()
            .partition(|_socket| over.next().unwrap_or(false));
        waiting = still;
        for socket in ended {
            let socket: OwnedFd = socket;
            match Errno::from_raw(getsockopt(&socket, sockopt::SocketError)?) {
                Errno::UnknownErrno => {
                    outcome.connected.push(now);
                    made.push(socket);
                }
                errno => outcome.failed.push((errno, now)),
            }
        }
    }
    // The peer serves connections in its own order: it must not wait for a connection
    // that has sent nothing yet.
    let streams: Vec<_> = made.into_iter().map(question).collect();
    for stream in streams {
        match stream.and_then(answer) {
            Ok(text) => {
                outcome.answered.push(monotonic_ns());
                outcome.reached.push(text);
            }
            Err(error) => {
                let errno = error.raw_os_error().map_or(Errno::EPIPE, Errno::from_raw);
                outcome.failed.push((errno, monotonic_ns()));
            }
        }
    }
    Ok(outcome)
}

/// Starts to connect, without a wait.
pub(crate) fn begin(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(family, SockType::Stream, flags, None)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Sends a line and reads the response.
fn question(socket: OwnedFd) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(b"where\n")?;
    Ok(stream)
}

fn answer(mut stream: TcpStream) -> std::io::Result<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn ask(client: &Client) -> Result<Outcome, Errno> {
    let io = |error: std::io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    let any = if client.to.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let mut outcome = Outcome::default();
    let sockets: Result<Vec<_>, Errno> = (0..client.connections)
        .map(|_| UdpSocket::bind(any).map_err(io))
        .collect();
    for socket in sockets? {
        let mut block = [0; 64];
        let asked = socket
            .connect(client.to)
            .and_then(|()| socket.send(b"query"))
            .and_then(|_| socket.recv(&mut block));
        match asked {
            Ok(_) => outcome.connected.push(monotonic_ns()),
            Err(error) => outcome.failed.push((io(error), monotonic_ns())),
        }
    }
    Ok(outcome)
}

/// Polls until the response is 2xx.
fn wait_for(wait: &Wait) {
    let mut sleeps = wait.sleeps_first;
    loop {
        if std::mem::replace(&mut sleeps, true) {
            std::thread::sleep(wait.period);
        }
        if is_ready(wait.port).unwrap_or(false) {
            return;
        }
    }
}

fn is_ready(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(b"GET /healthz/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut head = [0; 12];
    match stream.read_exact(&mut head) {
        Ok(()) => Ok(head.starts_with(b"HTTP/1.1 2")),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
