//! The requests of an application that finishes its work after SIGTERM.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    http::{self, Answer},
    unix_ns,
};

const INTERVAL: Duration = Duration::from_millis(100);

/// Requests a page at an interval of 100 ms for this time, or only waits, and prints the result: `app-calls unix_ns=N
/// calls=N failed=N`, and `error=...` of the first failure at its end.
pub(crate) fn send(url: Option<&str>, lasting: Duration) -> Result<()> {
    println!("app-term unix_ns={}", unix_ns());
    let Some(url) = url else {
        thread::sleep(lasting);
        return Ok(());
    };
    let begun = Instant::now();
    let (mut calls, mut failed, mut first_error) = (0_u32, 0_u32, String::new());
    while begun.elapsed() < lasting {
        let due = Instant::now() + INTERVAL;
        calls += 1;
        let error = match http::request(url)? {
            Answer::Status(200) => None,
            Answer::Status(status) => Some(format!("status {status}")),
            Answer::Refused(error) | Answer::Broken(error) => Some(error),
        };
        if let Some(error) = error {
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
