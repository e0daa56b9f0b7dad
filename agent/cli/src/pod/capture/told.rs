//! What is said of a capture when it is over.

use usher_client::error_chain::chain;
use usher_inspect::text::printable::clean;

use super::{bound::Ended, session::Summary};
use crate::{complain, global::Exit};

/// Says how many packets there were, how many were lost, and why it is over.
pub(super) fn told(summary: &Summary) -> Exit {
    let (why, exit) = why(&summary.ended);
    complain(&clean(&text(summary, &why)));
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
        Ended::Count => ("--count is reached".to_owned(), Exit::Fine),
        Ended::Size => ("--size is reached".to_owned(), Exit::Fine),
        Ended::Duration => ("--duration is over".to_owned(), Exit::Fine),
        Ended::Told => ("a signal".to_owned(), Exit::Fine),
        Ended::Unread => ("nobody reads any more".to_owned(), Exit::Fine),
        Ended::Unwritable(error) => (format!("it cannot be written: {error}"), Exit::Wrong),
        Ended::Broken(error) => (chain(error), Exit::Absent),
    }
}
