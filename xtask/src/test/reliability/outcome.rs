//! What runs of tests printed.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Test;
use crate::{test::verdict, workspace::root};

const RESULTS: &str = "tests/faults-results.json";

/// What became of tests, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) kernel: String,
    passed: BTreeMap<String, bool>,
}

/// What cargo says before the tests of a program, as far as it is read here.
pub(super) fn heading(package: &str, target: &str) -> String {
    let crate_name = package.replace('-', "_");
    match target {
        "lib" => format!("     Running unittests src/lib.rs (target/debug/deps/{crate_name}-0)"),
        target => format!("     Running tests/{target}/main.rs ({package})"),
    }
}

/// Packages that have test programs. Cargo does not say whose a program is, and two may have one of the same name.
const PACKAGES: [&str; 2] = ["usher-tests", "usher-sys"];

/// Package, where that is told, and target of such a line.
fn program(line: &str) -> Option<(Option<String>, String)> {
    let rest = line.trim_start().strip_prefix("Running ")?;
    let (path, place) = rest.split_once(" (")?;
    let place = place.strip_suffix(')')?;
    if path == "unittests src/lib.rs" {
        let name = place.rsplit('/').next()?.rsplit_once('-')?.0;
        return Some((Some(name.replace('_', "-")), "lib".to_owned()));
    }
    let target = path.strip_prefix("tests/")?;
    let target = target
        .strip_suffix("/main.rs")
        .or_else(|| target.strip_suffix(".rs"))?;
    let package = (!place.contains('/')).then(|| place.to_owned());
    Some((package, target.to_owned()))
}

impl Results {
    /// Those of the last run; none where there was none.
    pub(super) fn kept() -> Result<Self> {
        let path = root().join(RESULTS);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&path).context("read the results")?;
        serde_json::from_str(&text)
            .with_context(|| format!("{RESULTS} is not what was written there"))
    }

    pub(super) fn keep(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write the results")?;
        fs::write(root().join(RESULTS), text + "\n").context("write the results")
    }

    /// Takes what a run printed, and says how many results were in it.
    pub(super) fn take(&mut self, text: &str) -> usize {
        let mut now = None;
        let mut found = 0;
        for line in text.lines() {
            if let Some(program) = program(line) {
                now = Some(program);
                continue;
            }
            let Some((name, passed)) = verdict::of(line) else {
                continue;
            };
            let Some((package, target)) = &now else {
                continue;
            };
            // One that such a package does not have is forgotten later.
            let packages = match package {
                Some(package) => vec![package.as_str()],
                None => PACKAGES.to_vec(),
            };
            for package in packages {
                self.passed
                    .insert(format!("{package} {target} {name}"), passed);
            }
            found += 1;
        }
        found
    }

    /// Forgets those that are not in the matrix any more.
    pub(super) fn retain(&mut self, tests: &[Test]) {
        self.passed
            .retain(|name, _passed| tests.iter().any(|test| test.name() == *name));
    }

    /// How many passed, how many did not.
    pub(super) fn of(&self, tests: &[Test]) -> String {
        let outcome = |wanted| {
            let of = tests
                .iter()
                .filter(|test| self.passed.get(&test.name()).copied() == wanted);
            of.count()
        };
        let counts = [
            (outcome(Some(true)), "passed"),
            (outcome(Some(false)), "**failed**"),
            (outcome(None), "not run"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(count, _what)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        told.join(", ")
    }

    pub(super) fn summary(&self, tests: &[Test]) -> String {
        format!("of {} tests in the matrix: {}", tests.len(), self.of(tests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(package: &str, target: &str, path: &str) -> Test {
        Test {
            package: package.to_owned(),
            target: target.to_owned(),
            path: path.to_owned(),
        }
    }

    #[test]
    fn programs_are_told_apart() {
        let text = format!(
            "test nobodys ... ok\n     Running tests/hold/main.rs (target/debug/deps/hold-f00)\n\
             test faults::killed ... ok\ntest faults::stopped ... \u{1b}[31mFAILED\u{1b}[m\n\
             test faults::wedged ... ignored\n     Running unittests src/lib.rs (target/debug/deps/usher_sys-1b)\n\
             test a::b ... ok\n{}\ntest log::c ... ok\n",
            heading("usher-sys", "hold")
        );
        let mut results = Results::default();
        assert_eq!(results.take(&text), 4);
        let tests = [
            test("usher-tests", "hold", "faults::killed"),
            test("usher-tests", "hold", "faults::stopped"),
            test("usher-tests", "hold", "faults::wedged"),
            test("usher-sys", "lib", "a::b"),
            test("usher-sys", "hold", "log::c"),
        ];
        assert_eq!(results.of(&tests), "3 passed, 1 **failed**, 1 not run");
        results.retain(&tests[1..2]);
        assert_eq!(results.of(&tests), "1 **failed**, 4 not run");
    }
}
