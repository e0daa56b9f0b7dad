//! The result of one target, from the output of libFuzzer.

use std::{process::ExitStatus, time::Duration};

/// Number of lines to print for a failure.
const SHOWN: usize = 12;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) target: String,
    pub(super) executions: u64,
    /// Edges of the code that some input reached.
    pub(super) edges: u64,
    /// Inputs worth keeping.
    pub(super) corpus: u64,
    pub(super) seconds: u64,
    pub(super) failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// The file with the input; None if the program ended without one.
    pub(super) file: Option<String>,
    pub(super) output: Vec<String>,
}

impl Outcome {
    pub(super) fn new(target: &str, log: &str, status: ExitStatus, took: Duration) -> Self {
        let lines = format!("\n{log}");
        let last = |name: &str| -> u64 {
            let numbers = lines.split(name).skip(1).filter_map(|rest| {
                let rest = rest.trim_start();
                rest.split(|letter: char| !letter.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            });
            numbers.last().unwrap_or_default()
        };
        Self {
            target: target.to_owned(),
            executions: last("stat::number_of_executed_units:").max(last("\n#")),
            edges: last(" cov:"),
            corpus: last(" corp:"),
            seconds: took.as_secs(),
            failure: (!status.success()).then(|| Failure::new(log, status)),
        }
    }
}

impl Failure {
    fn new(log: &str, status: ExitStatus) -> Self {
        let file = log
            .lines()
            .find_map(|line| line.split_once("Test unit written to "))
            .map(|(_, file)| file.trim().to_owned());
        let starts = ["panicked at", "ERROR: libFuzzer", "error:"];
        let mut output: Vec<String> = log
            .lines()
            .skip_while(|line| !starts.iter().any(|start| line.contains(start)))
            .take_while(|line| !line.contains("MS: "))
            .take(SHOWN)
            .map(str::to_owned)
            .collect();
        if output.is_empty() {
            output.push(status.to_string());
        }
        Self { file, output }
    }
}

/// A row for each target.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let row = |target: &str, cells: [String; 6]| {
        cells.iter().fold(format!("{target:<16}"), |row, cell| {
            format!("{row}{cell:>11}")
        })
    };
    let head = [
        "executions",
        "per s",
        "edges",
        "inputs",
        "seconds",
        "failures",
    ];
    let mut rows = vec![row("target", head.map(str::to_owned))];
    rows.extend(outcomes.iter().map(|one| {
        let numbers = [
            one.executions,
            one.executions / one.seconds.max(1),
            one.edges,
            one.corpus,
            one.seconds,
            one.failure.is_some().into(),
        ];
        row(&one.target, numbers.map(|number| number.to_string()))
    }));
    let total: u64 = outcomes.iter().map(|one| one.executions).sum();
    rows.push(format!("{total} executions in all"));
    rows.join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    const GOOD: &str = "INFO: Seed: 1\n#2\tINITED cov: 22 ft: 23 corp: 1/1b exec/s: 0 rss: 36Mb\n\
        #1024\tpulse  cov: 300 ft: 400 corp: 20/1Kb lim: 4 exec/s: 512 rss: 40Mb\n\
        #2048\tDONE   cov: 310 ft: 512 corp: 25/2Kb lim: 4 exec/s: 1024 rss: 41Mb\n\
        Done 2048 runs in 2 second(s)\nstat::number_of_executed_units: 2048\nstat::peak_rss_mb:              41\n";

    #[test]
    fn figures_are_the_last_ones() {
        let took = Duration::from_secs(2);
        let outcome = Outcome::new("word", GOOD, ExitStatus::from_raw(0), took);
        let expected = Outcome {
            target: "word".to_owned(),
            executions: 2048,
            edges: 310,
            corpus: 25,
            seconds: 2,
            failure: None,
        };
        assert_eq!(outcome, expected);
        let table = table(&[outcome]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[1].starts_with("word ") && lines[1].ends_with(" 0"));
        assert!(lines[1].contains(" 1024 "), "per second: {table}");
        assert_eq!(lines[2..], ["2048 executions in all"]);
    }

    #[test]
    fn failure_has_its_file_and_its_output() {
        let log = "#7\tNEW    cov: 3 ft: 4 corp: 2/1b\nthread '<unnamed>' panicked at agent/core/src/a.rs:1:2:\nno\n\
            ==1== ERROR: libFuzzer: deadly signal\nMS: 2 CopyPart-\n\
            artifact_prefix='x'; Test unit written to target/fuzz/crashes/word-crash-00\n";
        let status = ExitStatus::from_raw(77 << 8);
        let outcome = Outcome::new("word", log, status, Duration::ZERO);
        assert_eq!(outcome.executions, 7);
        let failure = outcome.failure.unwrap();
        assert_eq!(
            failure.file.as_deref(),
            Some("target/fuzz/crashes/word-crash-00")
        );
        assert_eq!(failure.output.len(), 3, "{failure:?}");
        assert!(failure.output[0].contains("a.rs:1:2"));
    }

    #[test]
    fn program_that_just_ends_has_failed() {
        let outcome = Outcome::new("word", "", ExitStatus::from_raw(9), Duration::ZERO);
        let failure = outcome.failure.unwrap();
        assert_eq!(failure.file, None);
        assert!(failure.output[0].contains("signal: 9"), "{failure:?}");
    }
}
