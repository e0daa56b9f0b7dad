//! What the demonstration shows at its end.

use std::{fmt, time::Duration};

use super::case::{Case, Observed, Sample};

/// Wide enough for the longest title and for `1234.5 (1234.5-1234.5)`.
const TITLE: usize = 40;
const COLUMN: usize = 26;
const NOTES: &str = "\
Milliseconds from the app's own exit on, all on this machine's clock: the app writes the time as its last act; a request
is accepted when the agent's log line says so; the sidecar has ended when containerd says its process did (exited_at); a
Job is Complete when a `kubectl get jobs --watch` that has been running since before shows it.

A Job without any sidecar takes 1.2 to 3.2 s itself: the kubelet looks at its containers once per second, then reports the
pod's end, and the Job controller collects such reports for a second. A sidecar that ends within milliseconds of the app
is seen by the same look and adds nothing. A native sidecar is told to end only after the kubelet has seen the app's end,
may then drain (2 s, the grace period of these pods), and its own end takes another look.";

/// The runs of one case.
#[derive(Debug)]
pub(super) struct Row {
    case: Case,
    samples: Vec<Sample>,
}

impl Row {
    pub(super) fn new(case: Case) -> Self {
        Self {
            case,
            samples: Vec::new(),
        }
    }

    pub(super) fn case(&self) -> Case {
        self.case
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn cell(&self, of: impl Fn(&Sample) -> Option<Duration>) -> String {
        let mut times: Vec<f64> = self.samples.iter().filter_map(of).map(ms).collect();
        times.sort_by(f64::total_cmp);
        match (median(&times), &times[..]) {
            (Some(median), [first, .., last]) => {
                format!("{} ({} - {})", short(median), short(*first), short(*last))
            }
            (Some(median), _) => short(median),
            (None, _) => "-".to_owned(),
        }
    }

    fn complete(&self) -> Option<f64> {
        let mut times: Vec<f64> = self
            .samples
            .iter()
            .filter_map(|sample| sample.complete)
            .map(ms)
            .collect();
        times.sort_by(f64::total_cmp);
        median(&times)
    }
}

/// The whole table.
#[derive(Debug)]
pub(super) struct Table<'a> {
    observed: &'a Observed,
    rows: &'a [Row],
}

impl<'a> Table<'a> {
    pub(super) fn new(observed: &'a Observed, rows: &'a [Row]) -> Self {
        Self { observed, rows }
    }

    /// How long Jobs take in relation to those without a sidecar.
    fn ratios(&self) -> Option<String> {
        let complete = |wanted: Case| {
            let row = self.rows.iter().find(|row| row.case == wanted)?;
            row.complete()
        };
        let plain = complete(Case::Plain)?;
        let (enforce, native) = (complete(Case::Enforce)?, complete(Case::Native)?);
        Some(format!(
            "Job Complete in relation to the Job without a sidecar: {:.2} with usher, {:.2} with a native sidecar.",
            enforce / plain,
            native / plain
        ))
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.rows.first().map_or(0, |row| row.samples.len());
        writeln!(
            f,
            "\nms after the app's exit; median of {runs} (lowest - highest)\n"
        )?;
        let head = ["request accepted", "sidecar ended", "Job Complete"];
        line(f, "", &head.map(str::to_owned))?;
        let observed = self.observed;
        let complete = if observed.completed {
            "Complete".to_owned()
        } else {
            format!("not after {:.0}", ms(observed.watched))
        };
        let cells = ["none made".to_owned(), "still runs".to_owned(), complete];
        line(f, Case::Observe.title(), &cells)?;
        for row in self.rows {
            let cells = [
                row.cell(|sample| sample.accepted),
                row.cell(|sample| sample.sidecar_ended),
                row.cell(|sample| sample.complete),
            ];
            line(f, row.case.title(), &cells)?;
        }
        writeln!(f)?;
        if let (Some(reason), Some(decided)) = (&observed.reason, observed.decided) {
            writeln!(
                f,
                "would quit, {} ms after the app's exit: \"{reason}\"",
                short(ms(decided))
            )?;
        }
        if let Some(ratios) = self.ratios() {
            writeln!(f, "{ratios}")?;
        }
        writeln!(f, "\n{NOTES}")
    }
}

fn line(f: &mut fmt::Formatter<'_>, title: &str, cells: &[String; 3]) -> fmt::Result {
    let [accepted, ended, complete] = cells;
    let text = format!("{title:<TITLE$}{accepted:<COLUMN$}{ended:<COLUMN$}{complete}");
    writeln!(f, "{}", text.trim_end())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Tenths only where they say something.
fn short(ms: f64) -> String {
    if ms < 100.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// Of sorted figures; of an even number of them the mean of the two in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(accepted: Option<u64>, complete: u64) -> Sample {
        Sample {
            accepted: accepted.map(Duration::from_millis),
            sidecar_ended: accepted.map(|at| Duration::from_millis(at + 12)),
            complete: Some(Duration::from_millis(complete)),
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
        let mut row = Row::new(Case::Enforce);
        assert_eq!(row.cell(|sample| sample.complete), "-");
        row.add(sample(Some(1), 1900));
        assert_eq!(row.cell(|sample| sample.complete), "1900");
        row.add(sample(Some(3), 2100));
        assert_eq!(row.cell(|sample| sample.accepted), "2.0 (1.0 - 3.0)");
    }

    #[test]
    fn table_has_a_row_for_each_case_the_reason_and_the_ratios() {
        let observed = Observed {
            watched: Duration::from_millis(6004),
            completed: false,
            decided: Some(Duration::from_micros(600)),
            reason: Some("observe mode: nothing is done".to_owned()),
        };
        let mut rows = Case::TIMED.map(Row::new);
        rows[0].add(sample(Some(1), 2000));
        rows[1].add(sample(None, 2000));
        rows[2].add(sample(None, 4000));
        let text = Table::new(&observed, &rows).to_string();
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
