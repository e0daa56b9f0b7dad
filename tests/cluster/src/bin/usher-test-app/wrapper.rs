//! The wrappers that users put around an app's command. One waits for a late proxy: it polls, sleeps, and becomes the app.
//!
//! A shell with `curl` in its loop does the same and takes 10 ms more for each poll. The other one ends a proxy that
//! would outlive the app: it is the app's parent, waits for its exit, and requests the proxy to quit.

use std::{
    convert::Infallible,
    env,
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};

use crate::{duration, http};

/// It precedes all other arguments.
pub(crate) const FLAG: &str = "--until-ready";
/// It precedes all other arguments as well.
pub(crate) const PARENT_FLAG: &str = "--then-post";
/// The timeout and the interval of the requests to the proxy.
const ASK_FOR: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Waits and becomes the program; returns the reason of a failure.
pub(crate) fn run() -> Error {
    match wait_and_become() {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

fn wait_and_become() -> Result<Infallible> {
    let mut args = env::args().skip(2);
    let mut next = |what| args.next().with_context(|| format!("{FLAG} needs {what}"));
    let (url, every) = (next("an address")?, next("an interval")?);
    let program = next("a program")?;
    let every = duration(&every).with_context(|| format!("interval {every}"))?;
    while !http::is_ready(&url)? {
        thread::sleep(every);
    }
    let error = Command::new(&program).args(args).exec();
    Err(error).with_context(|| format!("become {program}"))
}

/// Runs the program as a child until its exit, then sends the request; returns the child's exit code.
pub(crate) fn run_then_post() -> Result<u8> {
    let mut args = env::args().skip(2);
    let mut next = |what| {
        args.next()
            .with_context(|| format!("{PARENT_FLAG} needs {what}"))
    };
    let (url, program) = (next("an address")?, next("a program")?);
    let ended = Command::new(&program)
        .args(args)
        .status()
        .with_context(|| format!("run {program}"))?;
    let began = Instant::now();
    while !http::post(&url)? && began.elapsed() < ASK_FOR {
        thread::sleep(ASK_EVERY);
    }
    Ok(ended
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}
