//! The application of test pods: what it does, how long and how it ends is said by its arguments.
//!
//! It writes `app-start unix_ns=N` first and, as its very last act, `app-exit unix_ns=N code=C`, so that a test can
//! measure from the end of the application itself. Without `--run-for` it ends at once, or with `--listen` on SIGTERM.
//! With `--await-port` all that begins when something in the pod listens on every such port. `--get` asks for a page
//! first, at once and only once, or for the time of `--retry-for` until the answer is 200; `--serve` is the server for it.
#![expect(clippy::print_stdout, reason = "its output is what tests read")]

mod http;
mod run;

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, bail};

const USAGE: &str = "usher-test-app [--run-for 1500ms] [--exit-code N] [--connect HOST:PORT] [--listen PORT] \
                     [--get HOST:PORT[/PATH] [--retry-for 60s]] [--serve PORT] [--await-port PORT]... [--fail-times N --state FILE] [--ignore-term]";

#[derive(Debug, Default)]
struct Behaviour {
    run_for: Option<Duration>,
    exit_code: Option<u8>,
    await_ports: Vec<u16>,
    connect: Option<String>,
    get: Option<String>,
    retry_for: Option<Duration>,
    listen: Option<u16>,
    serve: Option<u16>,
    fail_times: Option<u32>,
    state: Option<String>,
    ignore_term: bool,
}

fn main() -> ExitCode {
    let started = Instant::now();
    println!("app-start unix_ns={}", unix_ns());
    let code = behaviour()
        .and_then(|behaviour| run::run(&behaviour, started))
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
            "--get" => behaviour.get = Some(value),
            "--retry-for" => behaviour.retry_for = Some(duration(&value).with_context(bad)?),
            "--serve" => behaviour.serve = Some(value.parse().with_context(bad)?),
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

fn unix_ns() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos())
}
