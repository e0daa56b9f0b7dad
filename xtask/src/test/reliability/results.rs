//! The results of tests, from the output of cargo.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Test;
use crate::{file, test::verdict};

const FILE: &str = "tests/faults-results.json";
/// Packages with test programs. Cargo prints the program but not its package, and two packages may have programs of the
/// same name.
const PACKAGES: [&str; 2] = ["usher-tests", "usher-sys"];

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) kernel: String,
    /// Whether each test passed, by its name.
    passed: BTreeMap<String, bool>,
}

/// A line as cargo prints it before the tests of a program.
pub(super) fn heading(package: &str, target: &str) -> String {
    let crate_name = package.replace('-', "_");
    match target {
        "lib" => format!("     Running unittests src/lib.rs (target/debug/deps/{crate_name}-0)"),
        target => format!("     Running tests/{target}/main.rs ({package})"),
    }
}

/// The package, if the line names it, and the target.
fn program(line: &str) -> Option<(Option<String>, String)> {
    let (path, place) = line
        .trim_start()
        .strip_prefix("Running ")?
        .strip_suffix(')')?
        .split_once(" (")?;
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
    /// The results of the last run; empty without a run.
    pub(super) fn load() -> Result<Self> {
        file::read_json(FILE)
    }

    pub(super) fn save(&self) -> Result<()> {
        file::write_json(FILE, self)
    }

    /// Returns the number of results in the output.
    pub(super) fn read(&mut self, output: &str) -> usize {
        let mut current = None;
        let mut found = 0;
        for line in output.lines() {
            if let Some(program) = program(line) {
                current = Some(program);
            } else if let (Some((name, passed)), Some((package, target))) =
                (verdict::parse(line), &current)
            {
                // `retain` removes the names that a package does not have.
                let packages = match package {
                    Some(package) => vec![package.as_str()],
                    None => PACKAGES.to_vec(),
                };
                let names = packages
                    .iter()
                    .map(|package| format!("{package} {target} {name}"));
                self.passed.extend(names.map(|name| (name, passed)));
                found += 1;
            }
        }
        found
    }

    /// Removes tests that are not in the matrix.
    pub(super) fn retain(&mut self, tests: &[Test]) {
        self.passed
            .retain(|name, _| tests.iter().any(|test| test.name() == *name));
    }

    /// How many tests passed, failed and did not run.
    pub(super) fn counts(&self, tests: &[Test]) -> String {
        [
            (Some(true), "passed"),
            (Some(false), "**failed**"),
            (None, "not run"),
        ]
        .into_iter()
        .filter_map(|(outcome, word)| {
            let has_outcome = |test: &&Test| self.passed.get(&test.name()).copied() == outcome;
            let count = tests.iter().filter(has_outcome).count();
            (count > 0).then(|| format!("{count} {word}"))
        })
        .collect::<Vec<_>>()
        .join(", ")
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
    fn results_belong_to_the_program_above_them() {
        let text = format!(
            "test orphan ... ok\n     Running tests/hold/main.rs (target/debug/deps/hold-f00)\n\
             test faults::killed ... ok\ntest faults::stopped ... \u{1b}[31mFAILED\u{1b}[m\n\
             test faults::wedged ... ignored\n     Running unittests src/lib.rs (target/debug/deps/usher_sys-1b)\n\
             test a::b ... ok\n{}\ntest log::c ... ok\n",
            heading("usher-sys", "hold")
        );
        let mut results = Results::default();
        assert_eq!(results.read(&text), 4);
        let tests = [
            test("usher-tests", "hold", "faults::killed"),
            test("usher-tests", "hold", "faults::stopped"),
            test("usher-tests", "hold", "faults::wedged"),
            test("usher-sys", "lib", "a::b"),
            test("usher-sys", "hold", "log::c"),
        ];
        assert_eq!(results.counts(&tests), "3 passed, 1 **failed**, 1 not run");
        results.retain(&tests[1..2]);
        assert_eq!(results.counts(&tests), "1 **failed**, 4 not run");
    }
}
