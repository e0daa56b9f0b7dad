//! The results of suites, from the output of a guest.

use super::{
    guest::MARK,
    suite::{PROBE, Suite},
};
use crate::test::verdict;

/// The result of one suite on one kernel.
#[derive(Debug, Default)]
struct Outcome {
    suite: String,
    has_begun: bool,
    /// None if the guest ended before the suite.
    code: Option<i32>,
    passed: usize,
    /// Names of tests.
    failed: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Reader {
    /// The output of `usher check`.
    probe: Vec<String>,
    /// Of each suite, in the order in which the guest runs them.
    outcomes: Vec<Outcome>,
}

impl Reader {
    pub(super) fn new(suites: &[Suite]) -> Self {
        let outcome = |suite: &Suite| Outcome {
            suite: suite.name.clone(),
            ..Outcome::default()
        };
        Self {
            probe: Vec::new(),
            outcomes: suites.iter().map(outcome).collect(),
        }
    }

    pub(super) fn read(&mut self, line: &str) {
        let mut outcomes = self.outcomes.iter_mut();
        if let Some(words) = line.strip_prefix(MARK) {
            let words: Vec<&str> = words.split_whitespace().collect();
            let suite = outcomes.find(|one| words.get(1) == Some(&one.suite.as_str()));
            match (suite, &words[..]) {
                (Some(suite), ["begin", _]) => suite.has_begun = true,
                (Some(suite), ["end", _, code]) => suite.code = code.parse().ok(),
                _ => {}
            }
            return;
        }
        let Some(current) = outcomes
            .rfind(|one| one.has_begun)
            .filter(|last| last.code.is_none())
        else {
            return;
        };
        match verdict::parse(line) {
            Some((_, true)) => current.passed += 1,
            Some((name, false)) => current.failed.push(name.to_owned()),
            None if current.suite == PROBE => self.probe.push(line.to_owned()),
            None => {}
        }
    }

    /// What `usher check` reports about the kernel, which it reports first, and a line for each suite.
    pub(super) fn summary(&self) -> String {
        let probe = self.probe.iter().take_while(|line| !line.is_empty());
        let suites = self.suites().map(Outcome::line);
        let lines: Vec<String> = probe.cloned().chain(suites).collect();
        lines.join("\n")
    }

    /// The suites that failed or did not end, each with its failed tests.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let failed = self.suites().filter(|one| one.code != Some(0));
        failed.map(|one| match one.has_begun {
            true => format!("{} {}", one.suite, one.failed.join(" ")),
            false => format!("{} did not begin", one.suite),
        })
    }

    fn suites(&self) -> impl Iterator<Item = &Outcome> {
        // A check also fails where only the kernel is ready, as in a guest.
        self.outcomes.iter().filter(|one| one.suite != PROBE)
    }
}

impl Outcome {
    fn line(&self) -> String {
        let (suite, passed) = (&self.suite, self.passed);
        match (self.code, self.failed.len()) {
            (None, _) if !self.has_begun => format!("{suite}: not begun"),
            (None, _) => format!("{suite}: not finished, {passed} passed"),
            (Some(0), _) => format!("{suite}: {passed} passed"),
            (Some(_), 0) => format!("{suite}: failed"),
            (Some(_), failed) => format!("{suite}: {passed} passed, {failed} failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(suites: &[&str]) -> Reader {
        let suite = |name: &&str| Suite {
            name: (*name).to_owned(),
            command: Vec::new(),
        };
        Reader::new(&suites.iter().map(suite).collect::<Vec<_>>())
    }

    #[test]
    fn results_belong_to_their_suite() {
        let mut reader = reader(&["check", "sys", "start", "hold"]);
        let text = "noise\nvm-suite begin check\nkernel\n  ! exit codes: reported no code\n\nnode\n\
                    vm-suite end check 1\nvm-suite begin sys\nrunning 3 tests\ntest a ... ok\n\
                    test b::c ... \u{1b}[31mFAILED\u{1b}[m\nvm-suite end sys 101\nnoise\n\
                    vm-suite begin start\ntest e ... ok\nvm-suite end start 0\nvm-suite begin hold\ntest d ... ok\n";
        text.lines().for_each(|line| reader.read(line));
        let summary = "kernel\n  ! exit codes: reported no code\nsys: 1 passed, 1 failed\nstart: 1 passed\n\
                       hold: not finished, 1 passed";
        assert_eq!(reader.summary(), summary);
        let failures: Vec<String> = reader.failures().collect();
        assert_eq!(failures, ["sys b::c", "hold "]);
    }

    #[test]
    fn suites_that_did_not_begin_are_known() {
        let mut reader = reader(&["check", "sys", "hold", "start"]);
        assert_eq!(reader.failures().count(), 3);
        for line in [
            "begin check",
            "end check 1",
            "begin sys",
            "end sys 0",
            "begin hold",
        ] {
            reader.read(&format!("vm-suite {line}"));
        }
        let failures: Vec<String> = reader.failures().collect();
        assert_eq!(failures, ["hold ", "start did not begin"]);
        assert!(reader.summary().ends_with("\nstart: not begun"));
    }
}
