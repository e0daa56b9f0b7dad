//! The results of kernels, in a file next to the tests, and the tables of the documentation.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use serde::{Deserialize, Serialize};

use super::{
    outcome::Outcome,
    suite::{PROBE, SUITES, probe},
};
use crate::{docs::markdown, file};

const FILE: &str = "tests/kernels.json";
/// The category of `usher check --pre` for the kernel.
const CATEGORY: &str = "kernel";

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    /// Sorted by age.
    kernels: Vec<Kernel>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kernel {
    release: String,
    probes: Vec<Probe>,
    /// None for the machine's own kernel, on which `cargo xtask test` runs all suites.
    suites: Vec<Suite>,
}

/// A line of `usher check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Probe {
    category: String,
    title: String,
    outcome: String,
    saw: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Suite {
    name: String,
    cell: String,
}

/// The output of `usher check -o json`.
#[derive(Debug, Deserialize)]
struct Checks {
    checks: Vec<Probe>,
}

impl Results {
    /// Adds the result of a suite, or replaces it.
    pub(super) fn add(&mut self, release: &str, outcome: &Outcome) -> Result<()> {
        let kernel = self.kernel(release);
        if outcome.suite == PROBE {
            kernel.probes = probes(&outcome.lines.join("\n"))?;
            return Ok(());
        }
        let (name, cell) = (outcome.suite.clone(), outcome.cell());
        kernel.suites.retain(|suite| suite.name != name);
        kernel.suites.push(Suite { name, cell });
        let place = |suite: &Suite| SUITES.iter().position(|name| *name == suite.name);
        kernel.suites.sort_by_key(place);
        Ok(())
    }

    pub(super) fn probe_own_kernel(&mut self) -> Result<()> {
        let kernel = uname().context("read the kernel's release")?;
        let words = probe();
        let (program, arguments) = words.split_first().context("the probe has a program")?;
        let output = Command::new(program)
            .args(arguments)
            .output()
            .with_context(|| format!("run {program}"))?;
        let probes = probes(&String::from_utf8_lossy(&output.stdout))?;
        self.set_own(&kernel.release().to_string_lossy(), probes);
        Ok(())
    }

    /// Replaces the entry without suites: the machine's own kernel.
    fn set_own(&mut self, release: &str, probes: Vec<Probe>) {
        self.kernels.retain(|kernel| !kernel.suites.is_empty());
        self.kernel(release).probes = probes;
    }

    fn kernel(&mut self, release: &str) -> &mut Kernel {
        let found = self.kernels.iter().position(|one| one.release == release);
        let place = found.unwrap_or_else(|| {
            let place = self
                .kernels
                .partition_point(|one| version(&one.release) <= version(release));
            let kernel = Kernel {
                release: release.to_owned(),
                ..Kernel::default()
            };
            self.kernels.insert(place, kernel);
            place
        });
        &mut self.kernels[place]
    }

    /// The tables of capabilities and of suites, with a column for each kernel.
    pub(super) fn tables(&self) -> String {
        let probes = self.kernels.iter().flat_map(|kernel| &kernel.probes);
        let mut titles: Vec<&str> = probes.map(|probe| probe.title.as_str()).collect();
        let mut seen = BTreeSet::new();
        titles.retain(|title| seen.insert(*title));
        let cell = |Probe { outcome, saw, .. }: &Probe| match outcome.as_str() {
            "ok" => saw.clone(),
            _ => format!("**no**: {saw}"),
        };
        let capabilities = self.table("capability", &titles, "not asked", |kernel| {
            let probes = kernel.probes.iter();
            probes.map(|one| (one.title.as_str(), cell(one))).collect()
        });
        let suites = self.table("suite", &SUITES, "not run", |kernel| {
            if kernel.suites.is_empty() {
                let everywhere = || "with every `cargo xtask test`".to_owned();
                return SUITES.map(|name| (name, everywhere())).into();
            }
            let suites = kernel.suites.iter();
            suites
                .map(|suite| (suite.name.as_str(), suite.cell.clone()))
                .collect()
        });
        format!("{capabilities}\n{suites}")
    }

    fn table<'a>(
        &'a self,
        first: &str,
        rows: &[&'a str],
        missing: &str,
        cells: impl Fn(&'a Kernel) -> BTreeMap<&'a str, String>,
    ) -> String {
        let columns: Vec<_> = self.kernels.iter().map(cells).collect();
        let releases = self.kernels.iter().map(|kernel| kernel.release.clone());
        let head: Vec<String> = [first.to_owned()].into_iter().chain(releases).collect();
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|title| {
                let cells = columns.iter().map(|column| column.get(title).cloned());
                let cells = cells.map(|cell| cell.unwrap_or_else(|| missing.to_owned()));
                [(*title).to_owned()].into_iter().chain(cells).collect()
            })
            .collect();
        markdown::wide_table(&head, &rows)
    }
}

/// Guests run at the same time, so each change reads the file again.
pub(super) fn update(change: impl FnOnce(&mut Results) -> Result<()>) -> Result<()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut results = file::read_json(FILE)?;
    change(&mut results)?;
    file::write_json(FILE, &results)
}

/// The probes of the kernel in the output of `usher check -o json`, which has other lines around it.
fn probes(text: &str) -> Result<Vec<Probe>> {
    let start = text.find("{\n").context("no output of usher check")?;
    let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Checks>();
    let checks = documents.next().context("no output of usher check")?;
    let mut checks = checks.context("read the output of usher check")?.checks;
    checks.retain(|probe| probe.category == CATEGORY);
    Ok(checks)
}

/// The numbers at the start of a release.
fn version(release: &str) -> Vec<u32> {
    let numbers = release.split(|letter: char| !letter.is_ascii_digit());
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// The tables of the documentation.
pub(crate) fn tables() -> Result<String> {
    file::read_json(FILE).map(|results: Results| results.tables())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "noise {\n{\n \"kind\": \"Checks\", \"checks\": [\n{\"category\": \"kernel\", \"title\": \"exit codes\", \
                        \"outcome\": \"warn\", \"saw\": \"no answer\"},\n{\"category\": \"node\", \"title\": \"x\", \
                        \"outcome\": \"ok\", \"saw\": \"y\"}\n]}\nmore";

    #[test]
    fn kernels_are_in_order_and_keep_earlier_results() {
        let outcome = |suite: &str, passed, lines: &[&str]| Outcome {
            suite: suite.to_owned(),
            code: Some(0),
            passed,
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            ..Outcome::default()
        };
        let mut results = Results::default();
        let printed = PRINTED.replacen("noise {\n", "noise\n", 1);
        for (release, outcome) in [
            ("6.12.1", outcome(PROBE, 0, &[&printed])),
            ("6.12.1", outcome("hold", 7, &[])),
            ("6.1.9", outcome("sys", 3, &[])),
            ("6.12.1", outcome("sys", 5, &[])),
        ] {
            results.add(release, &outcome).unwrap();
        }
        let tables = results.tables();
        assert!(
            tables.starts_with("| capability | 6.1.9 | 6.12.1 |\n"),
            "{tables}"
        );
        let has = |line: &str| assert!(tables.contains(line), "{line:?} is not in\n{tables}");
        has("| exit codes | not asked | **no**: no answer |\n");
        has("| sys | 3 passed | 5 passed |\n");
        has("| hold | not run | 7 passed |\n");
        assert!(!tables.contains("| x |"), "{tables}");
        for own in ["6.18.1", "6.18.2"] {
            results.set_own(own, Vec::new());
        }
        let tables = results.tables();
        assert!(
            tables.starts_with("| capability | 6.1.9 | 6.12.1 | 6.18.2 |\n"),
            "{tables}"
        );
    }

    #[test]
    fn invalid_output_is_an_error() {
        assert!(probes("cannot execute").is_err());
        assert!(probes("{\n\"checks\": 3}").is_err());
    }
}
