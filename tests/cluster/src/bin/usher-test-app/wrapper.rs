//! What people put around an app's command when its proxy is late: ask, sleep, ask again, and then become the app.
//!
//! A shell with `curl` in its loop does the same and takes 10 ms more for each look. And what they put around it when its
//! proxy outlives it: be the app's parent, wait for its end, ask the proxy to end.

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

/// Its place is before all other arguments.
pub(crate) const FLAG: &str = "--until-ready";
/// So is this one's.
pub(crate) const PARENT_FLAG: &str = "--then-post";
/// How long the proxy is asked, and how often.
const ASK_FOR: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Waits and becomes the program; returns why it could not.
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

/// Runs the program as a child to its end, then asks; returns the child's exit code.
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
