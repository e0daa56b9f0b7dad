//! What people put around an app's command when its proxy is late: ask, sleep, ask again, and then become the app.
//!
//! A shell with `curl` in its loop does the same and takes 10 ms more for each look.

use std::{convert::Infallible, env, os::unix::process::CommandExt, process::Command, thread};

use anyhow::{Context, Error, Result};

use crate::{duration, http};

/// Its place is before all other arguments.
pub(crate) const FLAG: &str = "--until-ready";

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
