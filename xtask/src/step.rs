//! Steps with titles, run in order, and a summary of their results.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use usher_cluster::progress::say;

#[derive(Debug)]
pub(crate) struct Steps {
    task: &'static str,
    keep_going: bool,
    failed: bool,
    /// A line for each step.
    summary: Vec<String>,
}

impl Steps {
    /// Runs no step after a failure.
    pub(crate) fn fail_fast(task: &'static str) -> Self {
        Self {
            task,
            keep_going: false,
            failed: false,
            summary: Vec::new(),
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
        if self.failed && !self.keep_going {
            self.summary.push(format!("not run          {title}"));
            return;
        }
        say(&format!("\n=== {title} ==="));
        let started = Instant::now();
        let result = work();
        let seconds = started.elapsed().as_secs();
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        let line = format!("{word:<8} {seconds:>4} s  {title}");
        self.summary.push(line);
        if let Err(error) = result {
            say(&format!("{title}: {error:#}"));
            self.failed = true;
        }
    }

    /// Records a step that this machine cannot run.
    pub(crate) fn skip(&mut self, title: &str, reason: &str, is_error: bool) {
        if is_error {
            self.run(title, || bail!("{reason}; a pipeline may not skip it"));
        } else {
            say(&format!("\n=== {title} ===\nSKIPPED: {reason}"));
            let line = format!("SKIPPED          {title}: {reason}");
            self.summary.push(line);
        }
    }

    /// Records a test that failed, and passed when it was repeated.
    pub(crate) fn flaky(&mut self, test: &str) {
        let line = format!("FLAKY            {test}: has a race: find it in the output above");
        self.summary.push(line);
    }

    /// Adds the results of steps that ran at the same time.
    pub(crate) fn append(&mut self, other: Self) {
        self.failed |= other.failed;
        self.summary.extend(other.summary);
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Prints the summary, and fails if a step failed.
    pub(crate) fn finish(self) -> Result<()> {
        let lines = self.summary.join("\n");
        say(&format!("\n=== {}: summary ===\n{lines}", self.task));
        ensure!(!self.failed, "{} failed", self.task);
        Ok(())
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
        let expected = [
            "ok          0 s  one",
            "FAILED      0 s  two",
            "not run          three",
        ];
        assert_eq!(steps.summary, expected);
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
        steps.flaky("life::exit");
        assert!(steps.summary[0].starts_with("FLAKY            life::exit: "));
        assert!(steps.finish().is_ok());
    }

    #[test]
    fn skip_is_reported_and_an_error_in_a_pipeline() {
        let mut steps = Steps::fail_fast("test");
        steps.skip("cluster", "needs root", false);
        assert_eq!(steps.summary, ["SKIPPED          cluster: needs root"]);
        assert!(!steps.failed());
        steps.skip("cluster", "needs root", true);
        assert!(steps.failed());
    }
}
