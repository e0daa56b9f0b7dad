//! Why the start of an app waits, or does not, in words.

use std::time::Duration;

use super::hold;
use crate::start::{Probed, Start, Why};

/// The name of an app whose start will wait, and its own limit where it has one.
pub(super) fn planned(start: &Start) -> String {
    let Start {
        container, limit, ..
    } = start;
    match limit_of(start) {
        None => container.clone(),
        Some(why) => format!("{container} (for at most {limit:?}, {why})"),
    }
}

pub(super) fn held(start: &Start) -> String {
    let limit = start.limit;
    let why = limit_of(start).map(|why| format!(", {why}"));
    format!(
        "it was not executed yet and waits for the sidecar, for at most {limit:?}{}",
        why.unwrap_or_default()
    )
}

fn limit_of(start: &Start) -> Option<String> {
    let Probed { kind, kills_after } = start.probe?;
    Some(format!(
        "since its {} lets the kubelet end it {kills_after:?} after its start",
        kind.as_str()
    ))
}

pub(super) fn let_go(why: Why, held: Duration) -> String {
    let why = match why {
        Why::Opened(why) => hold::why(why),
        Why::Limit => {
            "its limit has come: it starts before its probes fail, its connections wait on"
        }
        Why::HolderEnded => "the process that held it ended: it starts, its connections wait",
        Why::ContainerEnded => "the container ended while it waited",
    };
    format!("{why}; its start had waited {}", hold::time(held))
}
