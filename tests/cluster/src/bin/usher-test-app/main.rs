//! The application of test pods. Its arguments define what it does, for how long, and how it ends.
//!
//! It writes `app-start unix_ns=N monotonic_ns=N` first, with times taken at its first instruction. As its last act it
//! writes `app-exit unix_ns=N code=C`, so that a test can measure from the end of the application itself. Without
//! `--run-for` it exits at once, or with `--listen` on SIGTERM; `--term-code` replaces the exit code of a shell, 143.
//! With `--await-file` and `--await-port` all that starts when the file exists and when a process in the pod listens on
//! each port. `--then-listen` listens once `--connect` and `--get` have succeeded. `--exit-code-at-index 2=42` is the exit code of
//! one index of an Indexed Job. `--echo` sends one datagram and expects it back. `--get` requests a page, once, or for the time of
//! `--retry-for` until the status is 200. `--serve-echo` and `--serve` are the servers for them. `--call-after-term`
//! requests a page ten times a second after SIGTERM, for the time of `--term-delay`, and writes how many requests failed.
//! With `--keep-after-term` all of them are on one connection, opened before. `--load` requests a page `--rate` times a
//! second until SIGTERM, and writes every second how many requests failed.
//!
//! With the variable `STAND_IN` it is a sidecar's stand-in.
//!
//! `--until-ready HOST:PORT/PATH EVERY PROGRAM ARGUMENT...` is the wrapper that users put around a command instead, and
//! `--then-post HOST:PORT/PATH PROGRAM ARGUMENT...` the one that ends the proxy after the command.
#![expect(clippy::print_stdout, reason = "its output is what tests read")]

mod calls;
mod echo;
mod http;
mod kept;
mod load;
mod run;
mod spawn;
mod stand_in;
mod wrapper;

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};

const USAGE: &str = "usher-test-app [--run-for 1500ms] [--exit-code N] [--connect HOST:PORT] [--listen PORT] \
                     [--echo HOST:PORT] [--serve-echo PORT] [--get HOST:PORT[/PATH] [--retry-for 60s]] [--serve PORT] \
                     [--await-file FILE] [--await-port PORT]... [--spawn N] [--fail-times N --state FILE] [--ignore-term] \
                     [--then-listen PORT] [--exit-code-at-index INDEX=N] [--load HOST:PORT[/PATH] [--rate N]] [--term-code N] \
                     [--call-after-term HOST:PORT[/PATH]] [--keep-after-term HOST:PORT[/PATH]] [--term-delay 10s]";

#[derive(Debug, Default)]
struct Behaviour {
    run_for: Option<Duration>,
    exit_code: Option<u8>,
    exit_code_at_index: Option<(String, u8)>,
    await_file: Option<String>,
    await_ports: Vec<u16>,
    echo: Option<String>,
    serve_echo: Option<u16>,
    spawn: Option<u32>,
    connect: Option<String>,
    get: Option<String>,
    retry_for: Option<Duration>,
    listen: Option<u16>,
    serve: Option<u16>,
    then_listen: Option<u16>,
    fail_times: Option<u32>,
    state: Option<String>,
    ignore_term: bool,
    term_code: Option<u8>,
    call_after_term: Option<String>,
    keep_after_term: Option<String>,
    load: Option<String>,
    rate: Option<u32>,
    term_delay: Option<Duration>,
}

fn main() -> ExitCode {
    let (unix, monotonic, started) = (unix_ns(), monotonic_ns(), Instant::now());
    if env::args().nth(1).as_deref() == Some(wrapper::FLAG) {
        // It only returns after a failure: the waiting process becomes another program.
        println!("app-error {:#}", wrapper::run());
        return ExitCode::FAILURE;
    }
    if env::args().nth(1).as_deref() == Some(wrapper::PARENT_FLAG) {
        let code = wrapper::run_then_post().unwrap_or_else(|error| {
            println!("app-error {error:#}");
            1
        });
        return ExitCode::from(code);
    }
    println!("app-start unix_ns={unix} monotonic_ns={monotonic}");
    let code = stand_in::run()
        .unwrap_or_else(|| behaviour().and_then(|behaviour| run::run(&behaviour, started)))
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
            "--exit-code-at-index" => {
                let (index, code) = value.split_once('=').with_context(bad)?;
                let code = code.parse().with_context(bad)?;
                behaviour.exit_code_at_index = Some((index.to_owned(), code));
            }
            "--term-code" => behaviour.term_code = Some(value.parse().with_context(bad)?),
            "--call-after-term" => behaviour.call_after_term = Some(value),
            "--keep-after-term" => behaviour.keep_after_term = Some(value),
            "--term-delay" => behaviour.term_delay = Some(duration(&value).with_context(bad)?),
            "--load" => behaviour.load = Some(value),
            "--rate" => behaviour.rate = Some(value.parse().with_context(bad)?),
            "--await-port" => behaviour.await_ports.push(value.parse().with_context(bad)?),
            "--await-file" => behaviour.await_file = Some(value),
            "--echo" => behaviour.echo = Some(value),
            "--serve-echo" => behaviour.serve_echo = Some(value.parse().with_context(bad)?),
            "--spawn" => behaviour.spawn = Some(value.parse().with_context(bad)?),
            "--connect" => behaviour.connect = Some(value),
            "--get" => behaviour.get = Some(value),
            "--retry-for" => behaviour.retry_for = Some(duration(&value).with_context(bad)?),
            "--serve" => behaviour.serve = Some(value.parse().with_context(bad)?),
            "--listen" => behaviour.listen = Some(value.parse().with_context(bad)?),
            "--then-listen" => behaviour.then_listen = Some(value.parse().with_context(bad)?),
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

fn unix_ns() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}

/// A time that is comparable with other clocks of a node, such as those of its other containers.
fn monotonic_ns() -> i128 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec())
    })
}
