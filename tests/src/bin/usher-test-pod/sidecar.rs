//! A sidecar: small HTTP/1.1 servers on loopback with good or bad manners.
//!
//! One thread per port and one per connection, so a connection that hangs
//! keeps nobody else waiting. For each request it says `request <ns> <port>
//! <method> <path>`, where the time is taken when the head is complete and the
//! line is written after the reply, so that saying it costs the measured path
//! nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::signal::{SigSet, Signal};
use usher_tests::synthetic::clock::monotonic_ns;
use usher_tests::synthetic::wire::{Manner, Sidecar};

use crate::{BROKEN, say};

/// A request head longer than this is not one.
const HEAD_LIMIT: usize = 16 * 1024;

/// Serves until something decides how it ends.
pub(crate) fn run(sidecar: &Sidecar) -> ExitCode {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_err() {
        return ExitCode::from(BROKEN);
    }
    let (verdict, verdicts) = channel();
    let code_on_term = sidecar.code_on_term;
    let on_signal = verdict.clone();
    std::thread::spawn(move || wait_for_term(&signals, code_on_term, &on_signal));
    if sidecar.listen_when_told {
        let ports = sidecar.ports.clone();
        std::thread::spawn(move || {
            if told_to_listen() {
                listen(&ports, &verdict);
            }
        });
    } else {
        listen(&sidecar.ports, &verdict);
    }
    first(&verdicts)
}

fn first(verdicts: &Receiver<u8>) -> ExitCode {
    ExitCode::from(verdicts.recv().unwrap_or(BROKEN))
}

fn wait_for_term(signals: &SigSet, code: Option<u8>, verdict: &Sender<u8>) {
    while signals.wait().is_ok() {
        say(&format!("term {}", monotonic_ns()));
        if let Some(code) = code {
            verdict.send(code).ok();
        }
    }
}

fn told_to_listen() -> bool {
    std::io::stdin()
        .lines()
        .map_while(Result::ok)
        .any(|line| line == "listen")
}

fn listen(ports: &[(u16, Manner)], verdict: &Sender<u8>) {
    for &(port, manner) in ports {
        let listener = match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => listener,
            Err(error) => {
                say(&format!("failed listen on port {port}: {error}"));
                return;
            }
        };
        say(&format!("listening {port}"));
        let verdict = verdict.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let verdict = verdict.clone();
                std::thread::spawn(move || serve(stream, port, manner, &verdict));
            }
        });
    }
}

fn serve(mut stream: TcpStream, port: u16, manner: Manner, verdict: &Sender<u8>) {
    let Some(line) = read_head(&mut stream) else {
        return;
    };
    let now = monotonic_ns();
    let sent = match manner {
        Manner::Quit | Manner::IgnoreQuit => reply(&mut stream, 200),
        Manner::Status(code) => reply(&mut stream, code),
        Manner::Hang | Manner::CloseWithoutReply => Ok(()),
        Manner::EndlessBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        }
    };
    say(&format!("request {now} {port} {line}"));
    if sent.is_err() {
        return;
    }
    match manner {
        Manner::Quit => verdict.send(0).unwrap_or_default(),
        Manner::Hang => wait_for_close(&mut stream),
        Manner::EndlessBody => {
            let block = [b'x'; 16 * 1024];
            while stream.write_all(&block).is_ok() {}
        }
        Manner::IgnoreQuit | Manner::Status(_) | Manner::CloseWithoutReply => {}
    }
}

/// The request line, once the whole head is there.
fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::with_capacity(1024);
    let mut block = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut block).ok().filter(|read| *read > 0)?;
        head.extend(block.get(..read)?);
        if head.len() > HEAD_LIMIT {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

fn reply(stream: &mut TcpStream, code: u16) -> std::io::Result<()> {
    let text = format!(
        "HTTP/1.1 {code} Synthetic\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"
    );
    stream.write_all(text.as_bytes())
}

fn wait_for_close(stream: &mut TcpStream) {
    let mut block = [0; 256];
    while stream.read(&mut block).is_ok_and(|read| read > 0) {}
}
