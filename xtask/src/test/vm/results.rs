//! What kernels came to, kept beside the tests, and the tables of the documentation that are made from it.

use std::{
    fs,
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
use crate::{docs::markdown, workspace::root};

const RESULTS: &str = "tests/kernels.json";
/// The category of `usher check --pre` that is about the kernel.
const CATEGORY: &str = "kernel";

/// All kernels that were tried, by their releases.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Results {
    kernels: Vec<Kernel>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kernel {
    release: String,
    /// What `usher` found out there by doing.
    probes: Vec<Probe>,
    /// Suites and what became of them; none for the machine's own, where `cargo xtask test` runs them all.
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

/// What `usher check -o json` prints.
#[derive(Debug, Deserialize)]
struct Checks {
    checks: Vec<Probe>,
}

impl Results {
    fn kept() -> Result<Self> {
        let path = root().join(RESULTS);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).context("read what kernels came to")?;
        serde_json::from_str(&text).with_context(|| format!("read {RESULTS}"))
    }

    fn keep(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write what kernels came to")?;
        fs::write(root().join(RESULTS), text + "\n").with_context(|| format!("write {RESULTS}"))
    }

    /// Takes what a guest came to. Suites that were not run this time keep their last result.
    pub(super) fn take(&mut self, release: &str, outcome: &Outcome) -> Result<()> {
        let kernel = self.of(release);
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

    /// Asks the machine's own kernel as well.
    pub(super) fn take_own(&mut self) -> Result<()> {
        let release = uname().context("ask for the kernel")?;
        let release = release.release().to_string_lossy().into_owned();
        let words = probe();
        let (program, arguments) = words.split_first().context("the probe is a program")?;
        let said = Command::new(program).args(arguments).output();
        let said = said.with_context(|| format!("run {program}"))?;
        self.own(&release, probes(&String::from_utf8_lossy(&said.stdout))?);
        Ok(())
    }

    /// The machine's own kernel stands in place of that of the machine before.
    fn own(&mut self, release: &str, probes: Vec<Probe>) {
        self.kernels.retain(|kernel| !kernel.suites.is_empty());
        self.of(release).probes = probes;
    }

    fn of(&mut self, release: &str) -> &mut Kernel {
        let found = self.kernels.iter().position(|one| one.release == release);
        let place = found.unwrap_or_else(|| {
            let newer = |one: &Kernel| version(&one.release) > version(release);
            let place = self.kernels.iter().position(newer);
            let place = place.unwrap_or(self.kernels.len());
            let kernel = Kernel {
                release: release.to_owned(),
                ..Kernel::default()
            };
            self.kernels.insert(place, kernel);
            place
        });
        &mut self.kernels[place]
    }

    /// Capabilities and suites, a column for each kernel.
    pub(super) fn tables(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for probe in self.kernels.iter().flat_map(|kernel| &kernel.probes) {
            if !titles.contains(&probe.title.as_str()) {
                titles.push(&probe.title);
            }
        }
        let of_probe = |kernel: &Kernel, title: &str| {
            let found = kernel.probes.iter().find(|probe| probe.title == title);
            match found {
                None => "not asked".to_owned(),
                Some(probe) if probe.outcome == "ok" => probe.saw.clone(),
                Some(probe) => format!("**no**: {}", probe.saw),
            }
        };
        let of_suite = |kernel: &Kernel, name: &str| {
            let found = kernel.suites.iter().find(|suite| suite.name == name);
            match found {
                Some(suite) => suite.cell.clone(),
                None if kernel.suites.is_empty() => "with every `cargo xtask test`".to_owned(),
                None => "not run".to_owned(),
            }
        };
        let capabilities = self.table("capability", &titles, of_probe);
        let suites = self.table("suite", &SUITES, of_suite);
        format!("{capabilities}\n{suites}")
    }

    fn table(&self, first: &str, rows: &[&str], cell: impl Fn(&Kernel, &str) -> String) -> String {
        let releases = self.kernels.iter().map(|kernel| kernel.release.clone());
        let head: Vec<String> = [first.to_owned()].into_iter().chain(releases).collect();
        let row = |title: &&str| {
            let cells = self.kernels.iter().map(|kernel| cell(kernel, title));
            [(*title).to_owned()].into_iter().chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
        markdown::wide_table(&head, &rows)
    }
}

/// Changes what is kept. Guests run beside each other: whoever changes it reads it anew.
pub(super) fn change(what: impl FnOnce(&mut Results) -> Result<()>) -> Result<()> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut results = Results::kept()?;
    what(&mut results)?;
    results.keep()
}

/// What is about the kernel, in what `usher check -o json` printed between other lines.
fn probes(text: &str) -> Result<Vec<Probe>> {
    let begin = text.find("{\n").context("usher check printed nothing")?;
    let mut documents = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<Checks>();
    let checks = documents.next().context("usher check printed nothing")?;
    let mut checks = checks.context("read what usher check printed")?.checks;
    checks.retain(|probe| probe.category == CATEGORY);
    Ok(checks)
}

/// The numbers at the beginning of a release.
fn version(release: &str) -> Vec<u32> {
    let numbers = release.split(|letter: char| !letter.is_ascii_digit());
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// What stands in the documentation.
pub(crate) fn tables() -> Result<String> {
    Results::kept().map(|results| results.tables())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "noise {\n{\n \"kind\": \"Checks\", \"checks\": [\n{\"category\": \"kernel\", \"title\": \"exit codes\", \
                        \"outcome\": \"warn\", \"saw\": \"no answer\"},\n{\"category\": \"node\", \"title\": \"x\", \
                        \"outcome\": \"ok\", \"saw\": \"y\"}\n]}\nmore";

    #[test]
    fn kernels_stand_in_their_order_and_keep_what_was_not_run_again() {
        let outcome = |suite: &str, passed, lines: &[&str]| Outcome {
            suite: suite.to_owned(),
            code: Some(0),
            passed,
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
            ..Outcome::default()
        };
        let mut results = Results::default();
        let said = SAID.replacen("noise {\n", "noise\n", 1);
        for (release, outcome) in [
            ("6.12.1", outcome(PROBE, 0, &[&said])),
            ("6.12.1", outcome("hold", 7, &[])),
            ("6.1.9", outcome("sys", 3, &[])),
            ("6.12.1", outcome("sys", 5, &[])),
        ] {
            results.take(release, &outcome).unwrap();
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
            results.own(own, Vec::new());
        }
        let tables = results.tables();
        assert!(
            tables.starts_with("| capability | 6.1.9 | 6.12.1 | 6.18.2 |\n"),
            "{tables}"
        );
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        assert!(probes("cannot execute").is_err());
        assert!(probes("{\n\"checks\": 3}").is_err());
    }
}
