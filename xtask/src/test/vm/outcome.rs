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
    /// None if the guest ended before the suite.
    code: Option<i32>,
    passed: usize,
    /// Names of tests.
    failed: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The output of `usher check`.
    probe: Vec<String>,
    outcomes: Vec<Outcome>,
}

impl Reader {
    pub(super) fn read(&mut self, line: &str) {
        if let Some(words) = line.strip_prefix(MARK) {
            let words: Vec<&str> = words.split_whitespace().collect();
            match words[..] {
                ["begin", suite] => self.outcomes.push(Outcome {
                    suite: suite.to_owned(),
                    ..Outcome::default()
                }),
                ["end", _, code] => {
                    if let Some(last) = self.outcomes.last_mut() {
                        last.code = code.parse().ok();
                    }
                }
                _ => {}
            }
            return;
        }
        let Some(current) = self.outcomes.last_mut().filter(|last| last.code.is_none()) else {
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
        failed.map(|one| format!("{} {}", one.suite, one.failed.join(" ")))
    }

    /// The suites that the guest ended before.
    pub(super) fn not_begun<'suite>(
        &self,
        suites: &'suite [Suite],
    ) -> impl Iterator<Item = &'suite str> {
        let names = suites.iter().map(|suite| suite.name.as_str());
        names.filter(|name| self.outcomes.iter().all(|one| one.suite != *name))
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

    #[test]
    fn results_belong_to_their_suite() {
        let mut reader = Reader::default();
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
        let suites = ["sys", "hold", "start"].map(|name| Suite {
            name: name.to_owned(),
            command: Vec::new(),
        });
        let mut reader = Reader::default();
        assert_eq!(reader.not_begun(&suites).count(), 3);
        reader.read("vm-suite begin sys");
        reader.read("vm-suite end sys 0");
        reader.read("vm-suite begin hold");
        let absent: Vec<&str> = reader.not_begun(&suites).collect();
        assert_eq!(absent, ["start"]);
    }
}
