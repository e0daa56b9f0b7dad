//! Steps in their order, each with a title, and at the end what became of them.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use usher_cluster::progress::say;

use crate::load::Load;

#[derive(Debug, PartialEq)]
enum Outcome {
    Passed(Effort),
    Failed(Effort),
    Skipped(String),
    NotRun,
}

/// What a step took.
#[derive(Debug, PartialEq)]
struct Effort {
    took: Duration,
    /// How much of the machine's processors was used meanwhile, in percent, whoever it was for.
    busy: Option<u64>,
}

/// What was done so far.
#[derive(Debug)]
pub(crate) struct Steps {
    what: &'static str,
    keep_going: bool,
    done: Vec<(String, Outcome)>,
}

impl Steps {
    /// After a failure no other step is run.
    pub(crate) fn fail_fast(what: &'static str) -> Self {
        Self {
            what,
            keep_going: false,
            done: Vec::new(),
        }
    }

    /// After a failure the others are run as well.
    pub(crate) fn keep_going(what: &'static str) -> Self {
        Self {
            keep_going: true,
            ..Self::fail_fast(what)
        }
    }

    /// Runs a step, unless an earlier one failed and that ends it all.
    pub(crate) fn run(&mut self, title: &str, work: impl FnOnce() -> Result<()>) {
        if self.failed() && !self.keep_going {
            self.done.push((title.to_owned(), Outcome::NotRun));
            return;
        }
        say(&format!("\n=== {title} ==="));
        let (started, before) = (Instant::now(), Load::now());
        let result = work();
        let effort = Effort {
            took: started.elapsed(),
            busy: before.and_then(|before| Some(Load::now()?.since(before))),
        };
        let outcome = match result {
            Ok(()) => Outcome::Passed(effort),
            Err(error) => {
                say(&format!("{error:#}"));
                Outcome::Failed(effort)
            }
        };
        self.done.push((title.to_owned(), outcome));
    }

    /// Records what this machine cannot do; a failure where nothing may be skipped.
    pub(crate) fn skip(&mut self, title: &str, reason: &str, is_error: bool) {
        if is_error {
            self.run(title, || bail!("{reason}; nothing may be skipped here"));
        } else {
            say(&format!("\n=== {title} ===\nSKIPPED: {reason}"));
            let outcome = Outcome::Skipped(reason.to_owned());
            self.done.push((title.to_owned(), outcome));
        }
    }

    pub(crate) fn failed(&self) -> bool {
        let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
        self.done.iter().any(|(_, outcome)| is_failure(outcome))
    }

    /// Says what became of every step; an error when one failed.
    pub(crate) fn finish(self) -> Result<()> {
        say(&format!(
            "\n=== {}: summary, with how busy the processors were ===\n{}",
            self.what,
            self.summary()
        ));
        if self.failed() {
            bail!("{} failed", self.what);
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let line = |(title, outcome): &(String, Outcome)| match outcome {
            Outcome::Passed(effort) => format!("ok       {effort}  {title}"),
            Outcome::Failed(effort) => format!("FAILED   {effort}  {title}"),
            Outcome::Skipped(reason) => format!("SKIPPED                 {title}: {reason}"),
            Outcome::NotRun => format!("not run                 {title}"),
        };
        let lines: Vec<String> = self.done.iter().map(line).collect();
        lines.join("\n")
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = match self.busy {
            Some(busy) => format!("{busy} %"),
            None => String::new(),
        };
        write!(f, "{:>4} s  {busy:>5}", self.took.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_failure_ends_it_and_the_rest_is_named() {
        let mut steps = Steps::fail_fast("test");
        steps.run("one", || Ok(()));
        steps.run("two", || bail!("no"));
        steps.run("three", || panic!("run after a failure"));
        let summary = steps.summary();
        let lines: Vec<&str> = summary.lines().collect();
        let [one, two, three] = lines[..] else {
            panic!("{summary}");
        };
        assert!(one.starts_with("ok          0 s  "), "{one}");
        assert!(one.ends_with(" %  one"), "{one}");
        assert!(two.starts_with("FAILED      0 s  "), "{two}");
        assert_eq!(three, "not run                 three");
        assert_eq!(steps.finish().unwrap_err().to_string(), "test failed");
    }

    #[test]
    fn all_are_run_where_one_wants_to_know_everything() {
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
    fn skip_is_named_and_an_error_in_a_pipeline() {
        let mut steps = Steps::fail_fast("test");
        steps.skip("cluster", "needs root", false);
        assert_eq!(
            steps.summary(),
            "SKIPPED                 cluster: needs root"
        );
        assert!(!steps.failed());
        steps.skip("cluster", "needs root", true);
        assert!(steps.failed());
    }
}
