//! The application, step by step.

use std::{
    env, fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream, UdpSocket},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

use crate::{
    Behaviour,
    calls::{self, Calls},
    echo,
    http::{self, Answer},
    kept::Connection,
    load, spawn, unix_ns,
};

/// The code that a shell reports for a process that SIGTERM ended.
const TERMINATED: u8 = 143;
/// There was a connection, and no successful response.
const BROKEN: u8 = 2;
/// The variable with the pod's index in an Indexed Job.
const INDEX: &str = "JOB_COMPLETION_INDEX";
/// The state of a listening socket in the kernel's tables.
const LISTENS: &str = "0A";
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The polling interval for a file. Sidecars wait for it when their readiness is measured.
const LOOK_SOON: Duration = Duration::from_millis(1);

pub(crate) fn run(behaviour: &Behaviour, started: Instant) -> Result<u8> {
    // Blocked before any thread exists, so that every thread inherits it.
    let mut term = SigSet::empty();
    term.add(Signal::SIGTERM);
    term.thread_block().context("block SIGTERM")?;

    if let Some(file) = &behaviour.await_file {
        while !Path::new(file).exists() {
            thread::sleep(LOOK_SOON);
        }
    }
    serve(behaviour)?;
    for &port in &behaviour.await_ports {
        while !has_listener(port)? {
            thread::sleep(LOOK_AGAIN);
        }
        println!("app-awaited port={port} unix_ns={}", unix_ns());
    }
    if let Some(address) = &behaviour.connect
        && !connect(address)
    {
        return Ok(1);
    }
    if let Some(port) = behaviour.then_listen {
        listen(port)?;
    }
    // Both are tried, even if the first fails.
    let echoed = match &behaviour.echo {
        Some(address) => echo::ask(address)?,
        None => true,
    };
    if let Some(url) = &behaviour.get {
        match http::get(url, behaviour.retry_for, started)? {
            Answer::Status(200) => {}
            Answer::Refused(_) => return Ok(1),
            Answer::Status(_) | Answer::Broken(_) => return Ok(BROKEN),
        }
    }
    if !echoed {
        return Ok(1);
    }
    if let Some(times) = behaviour.spawn {
        spawn::again_and_again(times)?;
    }
    let serves = [behaviour.listen, behaviour.serve, behaviour.serve_echo];
    let serves = serves.iter().any(Option::is_some)
        || behaviour.term_delay.is_some()
        || behaviour.load.is_some();
    if let Some(url) = &behaviour.load {
        load::begin(url, behaviour.rate.unwrap_or(load::RATE));
    }
    let calls = match (&behaviour.keep_after_term, &behaviour.call_after_term) {
        (Some(url), _) => Calls::Kept(Connection::open(url)),
        (None, Some(url)) => Calls::Each(url.clone()),
        (None, None) => Calls::None,
    };
    let lasting = behaviour.run_for.or((!serves).then_some(Duration::ZERO));
    if lasting != Some(Duration::ZERO) && terminated_within(term, behaviour.ignore_term, lasting) {
        if let Some(delay) = behaviour.term_delay {
            calls::send(calls, delay)?;
        }
        return Ok(behaviour.term_code.unwrap_or(TERMINATED));
    }
    let code = exit_code(behaviour).unwrap_or(0);
    match (behaviour.fail_times, &behaviour.state) {
        (None, _) => Ok(code),
        (Some(times), Some(state)) if count_run(state)? <= times => {
            Ok(behaviour.exit_code.unwrap_or(1))
        }
        (Some(_), Some(_)) => Ok(0),
        (Some(_), None) => bail!("--fail-times needs --state"),
    }
}

fn listener(port: u16) -> Result<TcpListener> {
    let listener =
        TcpListener::bind(("0.0.0.0", port)).with_context(|| format!("listen on {port}"))?;
    println!("app-listen port={port} unix_ns={}", unix_ns());
    Ok(listener)
}

/// Accepts connections and closes them.
fn listen(port: u16) -> Result<()> {
    let listener = listener(port)?;
    thread::spawn(move || listener.incoming().for_each(drop));
    Ok(())
}

fn serve(behaviour: &Behaviour) -> Result<()> {
    if let Some(port) = behaviour.listen {
        listen(port)?;
    }
    if let Some(port) = behaviour.serve {
        let listener = listener(port)?;
        thread::spawn(move || http::serve(&listener));
    }
    if let Some(port) = behaviour.serve_echo {
        let socket =
            UdpSocket::bind(("0.0.0.0", port)).with_context(|| format!("bind UDP port {port}"))?;
        thread::spawn(move || echo::serve(&socket));
    }
    Ok(())
}

/// Whether a socket of the pod's network listens on a port. It opens no connection, which a proxy would forward.
pub(crate) fn has_listener(port: u16) -> Result<bool> {
    let (port, mut found) = (format!(":{port:04X}"), false);
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // Without IPv6 only the first file exists.
        let text = fs::read_to_string(table).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(String::new()),
            _ => Err(error),
        });
        let text = text.with_context(|| format!("read {table}"))?;
        found |= text.lines().any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next().is_some_and(|local| local.ends_with(&port))
                && fields.nth(1) == Some(LISTENS)
        });
    }
    Ok(found)
}

/// Connects once, as an application that gives up at the first refusal does.
fn connect(address: &str) -> bool {
    let before = Instant::now();
    let result = TcpStream::connect(address);
    let us = before.elapsed().as_micros();
    match &result {
        Ok(_) => println!("app-connect us={us} unix_ns={}", unix_ns()),
        Err(error) => println!("app-connect us={us} unix_ns={} error={error}", unix_ns()),
    }
    result.is_ok()
}

/// Waits, for ever if `lasting` is None; true if SIGTERM came before the end and is not ignored.
fn terminated_within(term: SigSet, ignore_term: bool, lasting: Option<Duration>) -> bool {
    let (sender, receiver) = mpsc::channel();
    if !ignore_term {
        thread::spawn(move || term.wait().map(|_| sender.send(())));
    } else if lasting.is_some() {
        // Kept, because otherwise the channel would look closed.
        std::mem::forget(sender);
    } else {
        loop {
            thread::park();
        }
    }
    match lasting {
        Some(lasting) => receiver.recv_timeout(lasting) != Err(RecvTimeoutError::Timeout),
        None => receiver.recv().is_ok(),
    }
}

/// The exit code, which may be that of one index of an Indexed Job.
fn exit_code(behaviour: &Behaviour) -> Option<u8> {
    let own = env::var(INDEX).ok();
    let at_index = behaviour.exit_code_at_index.as_ref();
    at_index
        .filter(|(index, _code)| own.as_ref() == Some(index))
        .map(|(_index, code)| *code)
        .or(behaviour.exit_code)
}

/// The number of runs in the file, this one included. Every run adds one byte.
fn count_run(state: &str) -> Result<u32> {
    let before = fs::read(state).unwrap_or_default();
    fs::write(state, [&before[..], b"."].concat()).with_context(|| format!("write {state}"))?;
    Ok(u32::try_from(before.len())
        .unwrap_or(u32::MAX)
        .saturating_add(1))
}
