//! Texts about holds of starts.

use std::fmt;

use crate::{
    base::duration::setting,
    start::{Probed, Start},
};

/// The name of an app that is held at its start, with its own limit where it has one.
pub(super) fn planned(start: &Start) -> String {
    match limit_reason(start) {
        None => start.container.clone(),
        Some(why) => format!(
            "{} (for at most {}, {why})",
            start.container,
            setting(start.limit)
        ),
    }
}

pub(super) fn held(out: &mut fmt::Formatter<'_>, start: &Start) -> fmt::Result {
    write!(
        out,
        "the app was not executed yet and waits for the sidecar, for at most {}",
        setting(start.limit)
    )?;
    match limit_reason(start) {
        Some(why) => write!(out, ", {why}"),
        None => Ok(()),
    }
}

fn limit_reason(start: &Start) -> Option<String> {
    let Probed { kind, kills_after } = start.probe?;
    Some(format!(
        "because the kubelet ends it by its {} {} after its start",
        kind.as_str(),
        setting(kills_after)
    ))
}
