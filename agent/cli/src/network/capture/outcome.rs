//! What is said of a capture when it is over.

use usher_client::error_chain::chain;
use usher_inspect::text::printable::clean;

use super::{bound::Ended, session::Summary};
use crate::{global::Exit, print_stderr};

/// Says how many packets there were, how many were lost, and why it is over.
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
        None => "the kernel would not say how many it dropped".to_owned(),
        Some(counted) if counted.dropped > 0 => format!(
            "{} of {} DROPPED by the kernel for want of room (a larger --buffer, a smaller --snaplen or a \
             narrower filter helps)",
            counted.dropped, counted.accepted
        ),
        Some(_) => "none dropped by the kernel".to_owned(),
    };
    let unread = summary.counted.map_or(0, |counted| {
        (counted.accepted - counted.dropped).saturating_sub(summary.captured)
    });
    let unread = match unread {
        0 => String::new(),
        unread => format!(", {unread} more came and were not taken"),
    };
    format!(
        "{} packets in {seconds:.1} s{}; {lost}{unread}; ended: {why}",
        summary.captured,
        bytes.unwrap_or_default(),
    )
}

fn why(ended: &Ended) -> (String, Exit) {
    match ended {
        Ended::Count => ("--count is reached".to_owned(), Exit::Success),
        Ended::Size => ("--size is reached".to_owned(), Exit::Success),
        Ended::Duration => ("--duration is over".to_owned(), Exit::Success),
        Ended::Told => ("a signal".to_owned(), Exit::Success),
        Ended::Unread => ("nobody reads any more".to_owned(), Exit::Success),
        Ended::Unwritable(error) => (format!("it cannot be written: {error}"), Exit::Problem),
        Ended::Broken(error) => (chain(error), Exit::Unavailable),
    }
}
