//! Every kind of real sidecar ends with its Job, with the exit code that it is known to have.

mod matrix;
mod pair;
mod sql;
mod table;

use crate::lab::Line;

/// When the agent saw what it decided about, in milliseconds after the end of the pod's last app container.
fn since_exit(line: &Line) -> f64 {
    let since = line.0["since_exit_ms"].as_f64();
    since.unwrap_or_else(|| panic!("usher saw the app's end itself: {line:?}"))
}
