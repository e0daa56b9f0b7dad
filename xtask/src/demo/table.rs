//! The table at the end of the demonstration.

use super::{
    Case,
    lab::{Observed, Sample},
};

const NOTES: &str = "\
Milliseconds from the app's own exit, all on this machine's clock. The app writes the time as its last action. A request is
accepted at the time of the agent's log line. A sidecar has ended at the exited_at of containerd's event. A Job is Complete
when a `kubectl wait` that has been running since the Job's start returns.

A Job without a sidecar takes 1.2 to 3.2 s itself: the kubelet looks at its containers once per second, then reports the
pod's end, and the Job controller collects such reports for a second. A sidecar that ends within milliseconds of the app is
part of the same look and adds nothing. The kubelet terminates a native sidecar only after it has seen the app's end; the
sidecar may then drain (2 s, the grace period of these pods), and its own end takes another look.";

pub(super) fn table(observed: &Observed, rows: &[(Case, Vec<Sample>)]) -> String {
    let runs = rows.first().map_or(0, |(_, samples)| samples.len());
    let mut lines = vec![
        String::new(),
        format!("ms after the app's exit; median of {runs} (lowest - highest)"),
        String::new(),
        line("", "request accepted", "sidecar ended", "Job Complete"),
        line(
            Case::Observe.title(),
            "none made",
            "still runs",
            &format!("not after {:.0}", observed.watched_ms),
        ),
    ];
    lines.extend(rows.iter().map(|(case, samples)| {
        line(
            case.title(),
            &cell(samples, |sample| sample.accepted_ms),
            &cell(samples, |sample| sample.sidecar_ended_ms),
            &cell(samples, |sample| Some(sample.complete_ms)),
        )
    }));
    lines.extend([
        String::new(),
        format!(
            "would quit, {} ms after the app's exit: \"{}\"",
            short(observed.decided_ms),
            observed.reason
        ),
    ]);
    lines.extend(ratios(rows));
    lines.extend([String::new(), NOTES.to_owned()]);
    lines.join("\n")
}

fn line(title: &str, accepted: &str, ended: &str, complete: &str) -> String {
    format!("{title:<40}{accepted:<26}{ended:<26}{complete}")
}

fn ratios(rows: &[(Case, Vec<Sample>)]) -> Option<String> {
    let complete = |wanted: Case| {
        let (_, samples) = rows.iter().find(|(case, _)| *case == wanted)?;
        median(&sorted(samples, |sample| Some(sample.complete_ms)))
    };
    let plain = complete(Case::Plain)?;
    Some(format!(
        "Job Complete in relation to the Job without a sidecar: {:.2} with usher, {:.2} with a native sidecar.",
        complete(Case::Enforce)? / plain,
        complete(Case::Native)? / plain
    ))
}

fn cell(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> String {
    let times = sorted(samples, of);
    match (median(&times), &times[..]) {
        (Some(median), [first, .., last]) => {
            format!("{} ({} - {})", short(median), short(*first), short(*last))
        }
        (Some(median), _) => short(median),
        (None, _) => "-".to_owned(),
    }
}

fn sorted(samples: &[Sample], of: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
    let mut times: Vec<f64> = samples.iter().filter_map(of).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn short(ms: f64) -> String {
    if ms < 100.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// The median. For an even number of times, the mean of the two middle ones.
fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(accepted: Option<f64>, complete: f64) -> Sample {
        Sample {
            accepted_ms: accepted,
            sidecar_ended_ms: accepted.map(|at| at + 12.0),
            complete_ms: complete,
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
    }

    #[test]
    fn one_run_has_no_range_and_none_a_dash() {
        let accepted = |sample: &Sample| sample.accepted_ms;
        let mut samples = vec![sample(None, 1900.0)];
        assert_eq!(cell(&samples, accepted), "-");
        samples[0].accepted_ms = Some(1.0);
        assert_eq!(cell(&samples, accepted), "1.0");
        samples.push(sample(Some(3.0), 2100.0));
        assert_eq!(cell(&samples, accepted), "2.0 (1.0 - 3.0)");
    }

    #[test]
    fn table_has_a_row_for_each_case_the_reason_and_the_ratios() {
        let observed = Observed {
            watched_ms: 6004.0,
            decided_ms: 0.6,
            reason: "observe mode: nothing is done".to_owned(),
        };
        let mut rows = Case::TIMED.map(|case| (case, Vec::new()));
        rows[0].1.push(sample(Some(1.0), 2000.0));
        rows[1].1.push(sample(None, 2000.0));
        rows[2].1.push(sample(None, 4000.0));
        let text = table(&observed, &rows);
        let lines: Vec<&str> = text.lines().skip(3).take(8).collect();
        assert_eq!(
            lines[..5],
            [
                "                                        request accepted          sidecar ended             Job Complete",
                "Job with Istio's proxy, usher observes  none made                 still runs                not after 6004",
                "Job with Istio's proxy, usher enforces  1.0                       13.0                      2000",
                "Job without a sidecar                   -                         -                         2000",
                "Job with the proxy as a native sidecar  -                         -                         4000",
            ]
        );
        assert_eq!(
            lines[6..],
            [
                "would quit, 0.6 ms after the app's exit: \"observe mode: nothing is done\"",
                "Job Complete in relation to the Job without a sidecar: 1.00 with usher, 2.00 with a native sidecar.",
            ]
        );
    }
}
