//! The requests of an application that finishes its work after SIGTERM.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    http::{self, Answer},
    kept::Connection,
    unix_ns,
};

const INTERVAL: Duration = Duration::from_millis(100);

/// Where the requests go.
pub(crate) enum Calls {
    /// No request: the application only waits.
    None,
    /// `HOST:PORT/PATH`, each on a connection of its own.
    Each(String),
    /// All on one connection, which has been open since the start.
    Kept(Connection),
}

/// Sends a request at an interval of 100 ms for this time, or only waits, and prints the result: `app-calls unix_ns=N
/// calls=N failed=N`, and `error=...` of the first failure at its end.
pub(crate) fn send(calls: Calls, lasting: Duration) -> Result<()> {
    println!("app-term unix_ns={}", unix_ns());
    match calls {
        Calls::None => {
            thread::sleep(lasting);
            Ok(())
        }
        Calls::Each(url) => repeat(lasting, || error_of(&url)),
        Calls::Kept(mut connection) => repeat(lasting, || Ok(connection.request().err())),
    }
}

fn error_of(url: &str) -> Result<Option<String>> {
    Ok(match http::request(url)? {
        Answer::Status(200) => None,
        Answer::Status(status) => Some(format!("status {status}")),
        Answer::Refused(error) | Answer::Broken(error) => Some(error),
    })
}

fn repeat(lasting: Duration, mut call: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    let begun = Instant::now();
    let (mut calls, mut failed, mut first_error) = (0_u32, 0_u32, String::new());
    while begun.elapsed() < lasting {
        let due = Instant::now() + INTERVAL;
        calls += 1;
        if let Some(error) = call()? {
            failed += 1;
            if first_error.is_empty() {
                first_error = format!(" error={error}");
            }
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    println!(
        "app-calls unix_ns={} calls={calls} failed={failed}{first_error}",
        unix_ns()
    );
    Ok(())
}
