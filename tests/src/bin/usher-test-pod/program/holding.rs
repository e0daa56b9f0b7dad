//! Open, idle sockets.

use std::io::Result;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use usher_tests::synthetic::wire::{End, Holding};

use crate::{BROKEN, name_process, program::app, program::client, say, say_running};

/// All open sockets. No request is sent to them.
#[derive(Default)]
struct Held {
    streams: Vec<TcpStream>,
    listeners: Vec<TcpListener>,
    begun: Vec<OwnedFd>,
    datagrams: Vec<UdpSocket>,
}

/// Opens the sockets, and runs until it is terminated.
pub(crate) fn run(holding: &Holding) -> ExitCode {
    if let Some(name) = &holding.process {
        name_process(name);
    }
    say_running();
    match hold(holding) {
        Ok(held) => {
            say("holding");
            let code = app::app(End::OnCommand);
            drop(held);
            code
        }
        Err(error) => {
            say(&format!("failed holding: {error}"));
            ExitCode::from(BROKEN)
        }
    }
}

fn hold(holding: &Holding) -> Result<Held> {
    // As many as the machine permits.
    let (_soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let mut held = Held::default();
    for at in &holding.listens {
        let listener = TcpListener::bind(at)?;
        std::thread::spawn(move || {
            let kept: Vec<_> = listener.incoming().map_while(Result::ok).collect();
            drop(kept);
        });
    }
    for at in &holding.ignores {
        held.listeners.push(TcpListener::bind(at)?);
    }
    for (to, count) in &holding.connects {
        for _ in 0..*count {
            held.streams.push(TcpStream::connect(to)?);
        }
    }
    for to in &holding.begins {
        held.begun.push(client::begin(*to)?);
    }
    for (at, to) in &holding.datagrams {
        let socket = UdpSocket::bind(at)?;
        if let Some(to) = to {
            socket.connect(to)?;
        }
        held.datagrams.push(socket);
    }
    Ok(held)
}
