//! The results of suites, from the output of a guest.

use super::guest::MARK;
use crate::test::verdict;

/// The result of one suite on one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) suite: String,
    /// None if the guest ended before the suite.
    pub(super) code: Option<i32>,
    pub(super) passed: usize,
    /// Names of tests.
    pub(super) failed: Vec<String>,
    pub(super) lines: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) outcomes: Vec<Outcome>,
}

impl Reader {
    /// Returns the outcome that the line completes.
    pub(super) fn read(&mut self, line: &str) -> Option<&Outcome> {
        if let Some(words) = line.strip_prefix(MARK) {
            let words: Vec<&str> = words.split_whitespace().collect();
            match words[..] {
                ["begin", suite] => self.outcomes.push(Outcome {
                    suite: suite.to_owned(),
                    ..Outcome::default()
                }),
                ["end", suite, code] => {
                    let ended = self.outcomes.iter_mut().rfind(|one| one.suite == suite)?;
                    ended.code = code.parse().ok();
                    return Some(ended);
                }
                _ => {}
            }
            return None;
        }
        let current = self
            .outcomes
            .last_mut()
            .filter(|last| last.code.is_none())?;
        match verdict::parse(line) {
            Some((_, true)) => current.passed += 1,
            Some((name, false)) => current.failed.push(name.to_owned()),
            None => {}
        }
        current.lines.push(line.to_owned());
        None
    }

    /// The suite during which the guest ended.
    pub(super) fn unfinished(&self) -> Option<&Outcome> {
        self.outcomes.last().filter(|last| last.code.is_none())
    }
}

impl Outcome {
    pub(super) fn cell(&self) -> String {
        match (self.code, self.failed.len()) {
            (None, _) => format!("not finished, {} passed", self.passed),
            (Some(0), _) => format!("{} passed", self.passed),
            (Some(_), 0) => "failed".to_owned(),
            (Some(_), failed) => format!("{} passed, **{failed} failed**", self.passed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_belong_to_their_suite() {
        let mut reader = Reader::default();
        let text = "noise\nvm-suite begin sys\nrunning 3 tests\ntest a ... ok\ntest b::c ... \u{1b}[31mFAILED\u{1b}[m\n\
                    vm-suite end sys 101\nvm-suite begin hold\ntest d ... ok\n";
        let ended: Vec<String> = text
            .lines()
            .filter_map(|line| reader.read(line).map(|ended| ended.suite.clone()))
            .collect();
        assert_eq!(ended, ["sys"]);
        assert_eq!(reader.unfinished().unwrap().suite, "hold");
        let [sys, hold] = reader.outcomes.as_slice() else {
            panic!("{reader:?}");
        };
        assert_eq!(
            (sys.code, sys.passed, sys.failed.as_slice()),
            (Some(101), 1, &["b::c".to_owned()][..])
        );
        assert_eq!(sys.cell(), "1 passed, **1 failed**");
        assert_eq!(hold.cell(), "not finished, 1 passed");
    }
}
