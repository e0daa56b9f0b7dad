//! A constant rate of requests, each on a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    http::{self, Answer},
    unix_ns,
};

/// Requests a second, if the arguments do not set it.
pub(crate) const RATE: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);
/// The limit of a connect, and that of a response.
const LIMIT: Duration = Duration::from_secs(5);
/// The maximum number of open requests. At most so many are sent late when the server does not respond.
const SENDERS: u32 = 32;

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Begins to request `HOST:PORT/PATH`. Each failure is one line: `app-load-failed unix_ns=N us=N error=...`, with the
/// time of its start. Every second prints the totals of completed requests: `app-load unix_ns=N sent=N failed=N`.
pub(crate) fn begin(url: &str, rate: u32) {
    let counts = Arc::new(Counts::default());
    let begun = Instant::now();
    let interval = SECOND * SENDERS / rate.max(1);
    for number in 0..SENDERS {
        let (url, counts) = (url.to_owned(), Arc::clone(&counts));
        let mut due = begun + interval * number / SENDERS;
        thread::spawn(move || {
            loop {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                send(&url, &counts);
                due = (due + interval).max(Instant::now());
            }
        });
    }
    thread::spawn(move || {
        loop {
            thread::sleep(SECOND);
            let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
            println!(
                "app-load unix_ns={} sent={} failed={}",
                unix_ns(),
                count(&counts.sent),
                count(&counts.failed)
            );
        }
    });
}

fn send(url: &str, counts: &Counts) {
    let (at, before) = (unix_ns(), Instant::now());
    let error = match http::request_within(url, LIMIT) {
        Ok(Answer::Status(200)) => None,
        Ok(Answer::Status(status)) => Some(format!("status {status}")),
        Ok(Answer::Refused(error) | Answer::Broken(error)) => Some(error),
        Err(error) => Some(format!("{error:#}")),
    };
    if let Some(error) = error {
        let us = before.elapsed().as_micros();
        println!("app-load-failed unix_ns={at} us={us} error={error}");
        counts.failed.fetch_add(1, Ordering::Relaxed);
    }
    counts.sent.fetch_add(1, Ordering::Relaxed);
}
