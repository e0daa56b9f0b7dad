//! The application of test pods: what it does, how long and how it ends is said by its arguments.
//!
//! It writes `app-start unix_ns=N` first and, as its very last act, `app-exit unix_ns=N code=C`, so that a test can
//! measure from the end of the application itself. Without `--run-for` it ends at once, or with `--listen` on SIGTERM.
//! With `--await-port` all that begins when something in the pod listens on every such port.
#![expect(clippy::print_stdout, reason = "its output is what tests read")]

use std::{
    env, fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    process::ExitCode,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};

const USAGE: &str = "usher-test-app [--run-for 1500ms] [--exit-code N] [--connect HOST:PORT] [--listen PORT] \
                     [--await-port PORT]... [--fail-times N --state FILE] [--ignore-term]";

/// What a shell reports for a process that SIGTERM ended.
const TERMINATED: u8 = 143;
/// The state of a listening socket in the kernel's tables.
const LISTENS: &str = "0A";
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Behaviour {
    run_for: Option<Duration>,
    exit_code: Option<u8>,
    await_ports: Vec<u16>,
    connect: Option<String>,
    listen: Option<u16>,
    fail_times: Option<u32>,
    state: Option<String>,
    ignore_term: bool,
}

fn main() -> ExitCode {
    println!("app-start unix_ns={}", unix_ns());
    let code = behaviour()
        .and_then(|behaviour| run(&behaviour))
        .unwrap_or_else(|error| {
            println!("app-error {error:#}");
            1
        });
    println!("app-exit unix_ns={} code={code}", unix_ns());
    ExitCode::from(code)
}

fn behaviour() -> Result<Behaviour> {
    let mut behaviour = Behaviour::default();
    let mut args = env::args().skip(1);
    while let Some(flag) = args.next() {
        if flag == "--ignore-term" {
            behaviour.ignore_term = true;
            continue;
        }
        let value = args
            .next()
            .with_context(|| format!("{flag} needs a value; usage: {USAGE}"))?;
        let bad = || format!("bad value {value} of {flag}");
        match flag.as_str() {
            "--run-for" => behaviour.run_for = Some(duration(&value).with_context(bad)?),
            "--exit-code" => behaviour.exit_code = Some(value.parse().with_context(bad)?),
            "--await-port" => behaviour.await_ports.push(value.parse().with_context(bad)?),
            "--connect" => behaviour.connect = Some(value),
            "--listen" => behaviour.listen = Some(value.parse().with_context(bad)?),
            "--fail-times" => behaviour.fail_times = Some(value.parse().with_context(bad)?),
            "--state" => behaviour.state = Some(value),
            _ => bail!("unknown argument {flag}; usage: {USAGE}"),
        }
    }
    Ok(behaviour)
}

/// `250ms`, `2s`, or a bare number of milliseconds.
fn duration(text: &str) -> Result<Duration> {
    if let Some(ms) = text.strip_suffix("ms") {
        return Ok(Duration::from_millis(ms.parse()?));
    }
    if let Some(s) = text.strip_suffix('s') {
        return Ok(Duration::from_secs(s.parse()?));
    }
    Ok(Duration::from_millis(text.parse()?))
}

fn run(behaviour: &Behaviour) -> Result<u8> {
    // Blocked before any thread exists, so that every thread inherits it.
    let mut term = SigSet::empty();
    term.add(Signal::SIGTERM);
    term.thread_block().context("block SIGTERM")?;

    if let Some(port) = behaviour.listen {
        let listener =
            TcpListener::bind(("0.0.0.0", port)).with_context(|| format!("listen on {port}"))?;
        println!("app-listen port={port}");
        thread::spawn(move || listener.incoming().for_each(drop));
    }
    for &port in &behaviour.await_ports {
        while !somebody_listens(port)? {
            thread::sleep(LOOK_AGAIN);
        }
        println!("app-awaited port={port} unix_ns={}", unix_ns());
    }
    if let Some(address) = &behaviour.connect
        && !connect(address)
    {
        return Ok(1);
    }
    let lasting = behaviour
        .run_for
        .or(behaviour.listen.is_none().then_some(Duration::ZERO));
    if lasting != Some(Duration::ZERO) && terminated_within(term, behaviour.ignore_term, lasting) {
        return Ok(TERMINATED);
    }
    let code = behaviour.exit_code.unwrap_or(0);
    match (behaviour.fail_times, &behaviour.state) {
        (None, _) => Ok(code),
        (Some(times), Some(state)) if count_run(state)? <= times => {
            Ok(behaviour.exit_code.unwrap_or(1))
        }
        (Some(_), Some(_)) => Ok(0),
        (Some(_), None) => bail!("--fail-times needs --state"),
    }
}

/// Whether a socket of the pod's network listens on a port. No connection is made, which a proxy would pass on.
fn somebody_listens(port: u16) -> Result<bool> {
    let (port, mut found) = (format!(":{port:04X}"), false);
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // Without IPv6 there is only the first.
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

/// Waits, for ever when `lasting` is none; true when SIGTERM came before the end and counts.
fn terminated_within(term: SigSet, ignore_term: bool, lasting: Option<Duration>) -> bool {
    let (sender, receiver) = mpsc::channel();
    if !ignore_term {
        thread::spawn(move || term.wait().map(|_| sender.send(())));
    } else if lasting.is_some() {
        // Kept, or the channel would look closed.
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

/// How many runs the file has seen, this one included. Every run adds one byte.
fn count_run(state: &str) -> Result<u32> {
    let before = fs::read(state).unwrap_or_default();
    fs::write(state, [&before[..], b"."].concat()).with_context(|| format!("write {state}"))?;
    Ok(u32::try_from(before.len())
        .unwrap_or(u32::MAX)
        .saturating_add(1))
}

fn unix_ns() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}
