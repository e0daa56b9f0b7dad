//! The summary that is printed after a capture.

use usher_client::error_chain::chain;
use usher_inspect::text::printable::clean;

use super::{bound::Ended, session::Summary};
use crate::{global::Exit, stderr::print_stderr};

/// Prints the number of packets, the drops, and why the capture ended.
pub(super) fn report(summary: &Summary) -> Exit {
    let (why, exit) = why(&summary.ended);
    print_stderr(&clean(&text(summary, &why)));
    exit
}

fn text(summary: &Summary, why: &str) -> String {
    let seconds = summary.took.as_secs_f64();
    let bytes = summary
        .bytes
        .map(|bytes| format!(" ({bytes} bytes written)"));
    let lost = match &summary.counted {
        None => "the kernel does not report drops".to_owned(),
        Some(counted) if counted.dropped > 0 => format!(
            "{} of {} DROPPED by the kernel because the buffer was full (use a larger --buffer, a smaller \
             --snaplen or a narrower filter)",
            counted.dropped, counted.accepted
        ),
        Some(_) => "none dropped by the kernel".to_owned(),
    };
    let unread = summary.counted.map_or(0, |counted| {
        (counted.accepted - counted.dropped).saturating_sub(summary.captured)
    });
    let unread = match unread {
        0 => String::new(),
        unread => format!(", {unread} more received and not captured"),
    };
    format!(
        "{} packets in {seconds:.1} s{}; {lost}{unread}; ended: {why}",
        summary.captured,
        bytes.unwrap_or_default(),
    )
}

fn why(ended: &Ended) -> (String, Exit) {
    match ended {
        Ended::Count => ("--count reached".to_owned(), Exit::Success),
        Ended::Size => ("--size reached".to_owned(), Exit::Success),
        Ended::Duration => ("--duration elapsed".to_owned(), Exit::Success),
        Ended::Signal => ("signal".to_owned(), Exit::Success),
        Ended::ReaderClosed => ("the reader closed the output".to_owned(), Exit::Success),
        Ended::Unwritable(error) => (format!("cannot write the output: {error}"), Exit::Problem),
        Ended::Broken(error) => (chain(error), Exit::Unavailable),
    }
}
