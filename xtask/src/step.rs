//! Steps with titles, run in order, and a summary of their results.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use usher_cluster::progress::say;

#[derive(Debug, PartialEq)]
enum Outcome {
    Passed(Duration),
    Failed(Duration),
    Skipped(String),
    NotRun,
    Flaky(String),
}

#[derive(Debug)]
pub(crate) struct Steps {
    task: &'static str,
    keep_going: bool,
    done: Vec<(String, Outcome)>,
}

impl Steps {
    /// Runs no step after a failure.
    pub(crate) fn fail_fast(task: &'static str) -> Self {
        Self {
            task,
            keep_going: false,
            done: Vec::new(),
        }
    }

    /// Runs all steps, and continues after a failure.
    pub(crate) fn keep_going(task: &'static str) -> Self {
        Self {
            keep_going: true,
            ..Self::fail_fast(task)
        }
    }

    pub(crate) fn run(&mut self, title: &str, work: impl FnOnce() -> Result<()>) {
        if self.failed() && !self.keep_going {
            self.done.push((title.to_owned(), Outcome::NotRun));
            return;
        }
        say(&format!("\n=== {title} ==="));
        let started = Instant::now();
        let result = work();
        let took = started.elapsed();
        let outcome = match result {
            Ok(()) => Outcome::Passed(took),
            Err(error) => {
                say(&format!("{title}: {error:#}"));
                Outcome::Failed(took)
            }
        };
        self.done.push((title.to_owned(), outcome));
    }

    /// Records a step that this machine cannot run.
    pub(crate) fn skip(&mut self, title: &str, reason: &str, is_error: bool) {
        if is_error {
            self.run(title, || bail!("{reason}; a pipeline may not skip it"));
        } else {
            say(&format!("\n=== {title} ===\nSKIPPED: {reason}"));
            let outcome = Outcome::Skipped(reason.to_owned());
            self.done.push((title.to_owned(), outcome));
        }
    }

    /// Records a test that failed, and passed when it was repeated.
    pub(crate) fn flaky(&mut self, test: String) {
        let title = "has a race: find it in the output above".to_owned();
        self.done.push((title, Outcome::Flaky(test)));
    }

    /// Adds the results of steps that ran at the same time.
    pub(crate) fn append(&mut self, other: Self) {
        self.done.extend(other.done);
    }

    pub(crate) fn failed(&self) -> bool {
        let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
        self.done.iter().any(|(_, outcome)| is_failure(outcome))
    }

    /// Prints the summary, and fails if a step failed.
    pub(crate) fn finish(self) -> Result<()> {
        say(&format!(
            "\n=== {}: summary ===\n{}",
            self.task,
            self.summary()
        ));
        ensure!(!self.failed(), "{} failed", self.task);
        Ok(())
    }

    fn summary(&self) -> String {
        let line = |(title, outcome): &(String, Outcome)| match outcome {
            Outcome::Passed(took) => format!("ok       {:>4} s  {title}", took.as_secs()),
            Outcome::Failed(took) => format!("FAILED   {:>4} s  {title}", took.as_secs()),
            Outcome::Skipped(reason) => format!("SKIPPED          {title}: {reason}"),
            Outcome::NotRun => format!("not run          {title}"),
            Outcome::Flaky(test) => format!("FLAKY            {test}: {title}"),
        };
        let lines: Vec<String> = self.done.iter().map(line).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_ends_the_run_and_the_summary_names_the_rest() {
        let mut steps = Steps::fail_fast("test");
        steps.run("one", || Ok(()));
        steps.run("two", || bail!("no"));
        steps.run("three", || panic!("run after a failure"));
        let summary = steps.summary();
        let lines: Vec<&str> = summary.lines().collect();
        let [one, two, three] = lines[..] else {
            panic!("{summary}");
        };
        assert_eq!(one, "ok          0 s  one");
        assert_eq!(two, "FAILED      0 s  two");
        assert_eq!(three, "not run          three");
        assert_eq!(steps.finish().unwrap_err().to_string(), "test failed");
    }

    #[test]
    fn all_steps_run_with_keep_going() {
        let mut steps = Steps::keep_going("lint");
        let mut runs = 0;
        steps.run("one", || bail!("no"));
        steps.run("two", || {
            runs += 1;
            Ok(())
        });
        assert_eq!(runs, 1);
        assert!(steps.finish().is_err());
    }

    #[test]
    fn flaky_test_is_reported_and_no_failure() {
        let mut steps = Steps::fail_fast("test");
        steps.flaky("life::exit".to_owned());
        assert!(steps.summary().starts_with("FLAKY            life::exit: "));
        assert!(steps.finish().is_ok());
    }

    #[test]
    fn skip_is_reported_and_an_error_in_a_pipeline() {
        let mut steps = Steps::fail_fast("test");
        steps.skip("cluster", "needs root", false);
        assert_eq!(steps.summary(), "SKIPPED          cluster: needs root");
        assert!(!steps.failed());
        steps.skip("cluster", "needs root", true);
        assert!(steps.failed());
    }
}
