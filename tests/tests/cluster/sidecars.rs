//! Every kind of real sidecar exits with its Job, with its documented exit code.

mod matrix;
mod pair;
mod sql;
mod table;

use crate::lab::Line;

/// The time of the decision's observation, in milliseconds after the exit of the pod's last app container.
fn since_exit(line: &Line) -> f64 {
    let since = line.0["since_exit_ms"].as_f64();
    since.unwrap_or_else(|| panic!("usher saw the app's end itself: {line:?}"))
}
