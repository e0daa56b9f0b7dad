//! A stand-in for a sidecar. It has the image name and the arguments of the real one, which it ignores. The variable
//! `STAND_IN` sets its behaviour: `after=3s listen=5432 ready=15021 unready=15021 absent=4191 quit=15020 takes=2s
//! term=0 ends=1 outlives=15001`.

use std::{
    env,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

use crate::{duration, run::has_listener, unix_ns};

const VARIABLE: &str = "STAND_IN";
/// The polling interval. Each poll reads the sockets of the pod, which takes milliseconds on a node with many.
const LOOK_SELDOM: Duration = Duration::from_millis(500);
/// The value of `term` of a stand-in that SIGTERM does not end.
const IGNORED: &str = "ignored";
const READY: &str = "200 OK";
const UNREADY: &str = "503 Service Unavailable";
const ABSENT: &str = "404 Not Found";

#[derive(Debug, Default)]
struct StandIn {
    /// The time until its ports have listeners, or until it ends.
    after: Duration,
    listen: Vec<u16>,
    /// Ports that reply, and the status.
    replies: Vec<(u16, &'static str)>,
    /// A port at which a POST ends it with 0.
    quit: Option<u16>,
    /// The time from the request, or from SIGTERM, to its end.
    takes: Duration,
    /// It ends with 0 when another process of the pod has stopped listening on this port.
    outlives: Option<u16>,
    /// SIGTERM does not end it.
    ignores_term: bool,
    /// Its exit code after SIGTERM.
    term: u8,
    /// Its exit code, if it exits without a request.
    ends: Option<u8>,
}

/// Runs as a stand-in; None where the variable is not set.
pub(crate) fn run() -> Option<Result<u8>> {
    let text = env::var(VARIABLE).ok()?;
    Some(parse(&text).and_then(|stand_in| stand_in.run()))
}

fn parse(text: &str) -> Result<StandIn> {
    let mut stand_in = StandIn::default();
    for word in text.split_whitespace() {
        let (key, value) = word
            .split_once('=')
            .with_context(|| format!("{word} has no value"))?;
        match key {
            "after" => stand_in.after = duration(value)?,
            "takes" => stand_in.takes = duration(value)?,
            "listen" => stand_in.listen.push(value.parse()?),
            "ready" => stand_in.replies.push((value.parse()?, READY)),
            "unready" => stand_in.replies.push((value.parse()?, UNREADY)),
            "absent" => stand_in.replies.push((value.parse()?, ABSENT)),
            "outlives" => stand_in.outlives = Some(value.parse()?),
            "term" if value == IGNORED => stand_in.ignores_term = true,
            "quit" => stand_in.quit = Some(value.parse()?),
            "term" => stand_in.term = value.parse()?,
            "ends" => stand_in.ends = Some(value.parse()?),
            _ => bail!("unknown key {key} in {VARIABLE}"),
        }
    }
    Ok(stand_in)
}

impl StandIn {
    fn run(&self) -> Result<u8> {
        let mut term = SigSet::empty();
        term.add(Signal::SIGTERM);
        term.thread_block().context("block SIGTERM")?;
        let (end, ends) = mpsc::channel();
        if !self.ignores_term {
            let (terminated, code) = (end.clone(), self.term);
            thread::spawn(move || term.wait().map(|_signal| terminated.send(code)));
        }
        if let Ok(code) = ends.recv_timeout(self.after) {
            return self.end(code);
        }
        if let Some(code) = self.ends {
            return Ok(code);
        }
        self.serve(&end)?;
        if let Some(port) = self.outlives {
            let ended = end.clone();
            thread::spawn(move || outlive(port).map(|()| ended.send(0)));
        }
        self.end(ends.recv()?)
    }

    fn end(&self, code: u8) -> Result<u8> {
        thread::sleep(self.takes);
        Ok(code)
    }

    fn serve(&self, end: &Sender<u8>) -> Result<()> {
        let silent = self.listen.iter().map(|port| (*port, None, None));
        let replies = self
            .replies
            .iter()
            .map(|(port, status)| (*port, Some(*status), None));
        let quit = self.quit.map(|port| (port, Some(READY), Some(end.clone())));
        for (port, status, quits) in silent.chain(replies).chain(quit) {
            let listener = TcpListener::bind(("0.0.0.0", port))
                .with_context(|| format!("listen on {port}"))?;
            println!("app-listen port={port} unix_ns={}", unix_ns());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if let Some(status) = status {
                        reply(stream, status, quits.as_ref());
                    }
                }
            });
        }
        Ok(())
    }
}

/// Waits for the listener of a port, and for its end.
fn outlive(port: u16) -> Result<()> {
    for listens in [true, false] {
        while has_listener(port)? != listens {
            thread::sleep(LOOK_SELDOM);
        }
    }
    Ok(())
}

/// Replies to one request. A disconnected client is not an error.
fn reply(mut stream: TcpStream, status: &str, quits: Option<&Sender<u8>>) {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(length @ 1..) => request.extend(&part[..length]),
            Ok(0) | Err(_) => return,
        }
    }
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).ok();
    if let Some(end) = quits.filter(|_| request.starts_with(b"POST ")) {
        end.send(0).ok();
    }
}
