//! One way to wait for the proxy, with its outcomes.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use usher_cluster::mesh::{Outcome, Variant};

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) variant: Variant,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Row {
    pub(crate) const HEAD: &'static str = "\
        ms, min / median / max                | refused | bind -> main() | main() -> proxy ready | bind -> first good answer";

    pub(crate) fn new(name: &'static str, variant: Variant) -> Self {
        Self {
            name,
            variant,
            outcomes: Vec::new(),
        }
    }

    /// Minimum, median and maximum of the values.
    fn spread(&self, of: impl Fn(&Outcome) -> Option<i128>) -> String {
        let mut values: Vec<i128> = self.outcomes.iter().filter_map(of).collect();
        values.sort_unstable();
        match values.as_slice() {
            [] => "-".to_owned(),
            [first, .., last] => format!("{first} / {} / {last}", values[values.len() / 2]),
            [only] => only.to_string(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.outcomes.iter().filter(|one| one.refused()).count();
        write!(
            f,
            "{:<37} | {refused} of {} | {} | {} | {}",
            self.name,
            self.outcomes.len(),
            self.spread(main_at),
            self.spread(ready_after_main),
            self.spread(|one| one.first_good_answer().map(milliseconds)),
        )
    }
}

/// One run as a line.
pub(crate) fn line(outcome: &Outcome) -> String {
    let at = |value: Option<i128>| value.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
    let runs = outcome.app.iter().map(|run| match &run.answer {
        Ok(status) => format!("{status} after {} refusals", run.refused),
        Err(error) => error.clone(),
    });
    format!(
        "main() {}, ready {} after it, {}, code {:?}",
        at(main_at(outcome)),
        at(ready_after_main(outcome)),
        runs.collect::<Vec<_>>().join("; "),
        outcome.app_exit_code(),
    )
}

fn main_at(outcome: &Outcome) -> Option<i128> {
    Some(difference(outcome.bound_at, outcome.app.first()?.main_at))
}

fn ready_after_main(outcome: &Outcome) -> Option<i128> {
    Some(difference(
        outcome.app.first()?.main_at,
        outcome.proxy_ready_at?,
    ))
}

/// Milliseconds from one time to another, negative if the second is earlier.
fn difference(from: SystemTime, to: SystemTime) -> i128 {
    match to.duration_since(from) {
        Ok(later) => milliseconds(later),
        Err(earlier) => -milliseconds(earlier.duration()),
    }
}

fn milliseconds(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}
