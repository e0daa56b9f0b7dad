//! What became of one target, by what libFuzzer says.

use std::{process::ExitStatus, time::Duration};

use serde::Serialize;

/// Lines that are shown of a failure.
const SHOWN: usize = 12;

/// One target's run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) target: String,
    /// Inputs that were decoded.
    pub(super) executions: u64,
    /// The same per second.
    pub(super) per_second: u64,
    /// Edges of the code that some input reached.
    pub(super) edges: u64,
    /// Edges, how often each was taken, and operands of comparisons: what makes an input worth keeping.
    pub(super) features: u64,
    /// Inputs that were worth it.
    pub(super) corpus: u64,
    /// Most memory that it had, MiB.
    pub(super) memory: u64,
    pub(super) seconds: u64,
    pub(super) failure: Option<Failure>,
}

/// An input that a decoder could not take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Failure {
    /// The file that has it; None where the program ended without one.
    pub(super) file: Option<String>,
    /// What was said.
    pub(super) says: Vec<String>,
}

impl Outcome {
    /// Reads what libFuzzer wrote.
    pub(super) fn of(target: &str, log: &str, status: ExitStatus, took: Duration) -> Self {
        let last = |name: &str| {
            let mut values = log.lines().filter_map(|line| after(line, name));
            values.next_back().unwrap_or_default()
        };
        let seconds = took.as_secs();
        let executions = last("stat::number_of_executed_units:").max(last("#"));
        Self {
            target: target.to_owned(),
            executions,
            per_second: executions / seconds.max(1),
            edges: last(" cov:"),
            features: last(" ft:"),
            corpus: last(" corp:"),
            memory: last("stat::peak_rss_mb:"),
            seconds,
            failure: (!status.success()).then(|| Failure::of(log, status)),
        }
    }

    /// In a few words.
    pub(super) fn short(&self) -> String {
        match &self.failure {
            None => format!("{} executions, {} edges", self.executions, self.edges),
            Some(_) => format!("FAILED after {} executions", self.executions),
        }
    }
}

/// The number behind a word of a line; `#` stands at the beginning only.
fn after(line: &str, word: &str) -> Option<u64> {
    let rest = match word {
        "#" => line.strip_prefix('#')?,
        word => line.split_once(word)?.1.trim_start(),
    };
    let end = rest.find(|letter: char| !letter.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

impl Failure {
    fn of(log: &str, status: ExitStatus) -> Self {
        let file = log
            .lines()
            .find_map(|line| line.split_once("Test unit written to "))
            .map(|(_, file)| file.trim().to_owned());
        // A panic's place and words, or libFuzzer's own.
        let begins = |line: &&str| {
            line.contains("panicked at")
                || line.contains("ERROR: libFuzzer")
                || line.contains("error:")
        };
        let mut says: Vec<String> = log
            .lines()
            .skip_while(|line| !begins(line))
            .take_while(|line| !line.contains("MS: "))
            .take(SHOWN)
            .map(str::to_owned)
            .collect();
        if says.is_empty() {
            says.push(status.to_string());
        }
        Self { file, says }
    }
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
        let outcome = Outcome::of(
            "word",
            GOOD,
            ExitStatus::from_raw(0),
            Duration::from_secs(2),
        );
        assert_eq!(
            outcome,
            Outcome {
                target: "word".to_owned(),
                executions: 2048,
                per_second: 1024,
                edges: 310,
                features: 512,
                corpus: 25,
                memory: 41,
                seconds: 2,
                failure: None,
            }
        );
        assert_eq!(outcome.short(), "2048 executions, 310 edges");
    }

    #[test]
    fn failure_has_its_file_and_its_words() {
        let log = "#7\tNEW    cov: 3 ft: 4 corp: 2/1b\nthread '<unnamed>' panicked at agent/core/src/a.rs:1:2:\nno\n\
            ==1== ERROR: libFuzzer: deadly signal\nMS: 2 CopyPart-\n\
            artifact_prefix='x'; Test unit written to target/fuzz/crashes/word-crash-00\n";
        let status = ExitStatus::from_raw(77 << 8);
        let outcome = Outcome::of("word", log, status, Duration::ZERO);
        assert_eq!(outcome.executions, 7);
        let failure = outcome.failure.unwrap();
        assert_eq!(
            failure.file.as_deref(),
            Some("target/fuzz/crashes/word-crash-00")
        );
        assert_eq!(failure.says.len(), 3, "{failure:?}");
        assert!(failure.says[0].contains("a.rs:1:2"));
    }

    #[test]
    fn program_that_just_ends_has_failed() {
        let outcome = Outcome::of("word", "", ExitStatus::from_raw(9), Duration::ZERO);
        let failure = outcome.failure.unwrap();
        assert_eq!(failure.file, None);
        assert!(failure.says[0].contains("signal: 9"), "{failure:?}");
    }
}
