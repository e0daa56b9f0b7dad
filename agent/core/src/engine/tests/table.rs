//! One row for each situation that a pod can be in: its specification, the events, and the expected decisions.
//!
//! [`scenario`] explains the words of a row.

mod cost;
mod deletion;
mod ended;
mod kinds;
mod left_alone;
mod pod_failure;
mod quitting;
mod reported;
mod scenario;
mod unknown_code;
mod waiting;
mod whole_pod;

use self::scenario::Scenario;

struct Row {
    what: &'static str,
    pod: &'static str,
    events: &'static str,
    /// Decisions since the last `;` of the events, in order: `CONTAINER DECISION`
    /// and, after a colon, a piece of the reason; or `RUN STEP`.
    reported: &'static [&'static str],
}

const fn row(
    what: &'static str,
    pod: &'static str,
    events: &'static str,
    reported: &'static [&'static str],
) -> Row {
    Row {
        what,
        pod,
        events,
        reported,
    }
}

/// Checks all rows, and panics with a list of those that fail.
fn check(rows: &[Row]) {
    check_with(rows, "");
}

/// The same, with the configuration that the word `config` loads.
fn check_with(rows: &[Row], config: &str) {
    let wrong = rows.iter().filter_map(|row| {
        let mut scenario = Scenario::new(row.pod, config);
        for word in row.events.split_whitespace() {
            scenario.apply(word);
        }
        let reported = scenario.reported();
        let same = reported.len() == row.reported.len()
            && reported
                .iter()
                .zip(row.reported)
                .all(|(reported, want)| fits(reported, want));
        let Row {
            what,
            pod,
            events,
            reported: want,
        } = row;
        (!same).then(|| {
            format!("{what}\n  {pod} | {events}\n  want {want:#?}\n  reported {reported:#?}")
        })
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fits(reported: &str, want: &str) -> bool {
    let (head, reason) = reported.split_once(": ").unwrap_or((reported, ""));
    let (want, piece) = want.split_once(": ").unwrap_or((want, ""));
    head == want && reason.contains(piece)
}
