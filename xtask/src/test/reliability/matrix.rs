//! The faults, what is expected, and which tests show it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{Test, outcome::Results};
use crate::workspace::root;

const MATRIX: &str = "tests/faults.yaml";
/// All tests of a module.
const ALL: &str = "*";
/// Those that need a cluster, which is not made for this.
const CLUSTER: [&str; 2] = ["cluster", "nodes"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    fault: String,
    expected: String,
    tests: Vec<String>,
}

fn rows() -> Result<Vec<Row>> {
    let text = fs::read_to_string(root().join(MATRIX)).context("read the fault matrix")?;
    serde_saphyr::from_str(&text).with_context(|| format!("{MATRIX} is no matrix"))
}

/// All tests of the matrix, once each.
pub(super) fn tests() -> Result<Vec<Test>> {
    let mut found = BTreeSet::new();
    for row in rows()? {
        for entry in &row.tests {
            found.extend(named(entry)?);
        }
    }
    Ok(found.into_iter().collect())
}

/// Programs whose tests need nothing but this machine.
pub(super) fn targets_without_cluster(tests: &[Test]) -> BTreeSet<(String, String)> {
    let alone = tests
        .iter()
        .filter(|test| !CLUSTER.contains(&test.target.as_str()));
    let targets = alone.map(|test| (test.package.clone(), test.target.clone()));
    targets.collect()
}

/// The tests that an entry names, which have to be in the source.
fn named(entry: &str) -> Result<Vec<Test>> {
    let words: Vec<&str> = entry.split(' ').collect();
    let [package, target, path] = words.as_slice() else {
        bail!("{MATRIX}: {entry:?} is not PACKAGE TARGET PATH");
    };
    let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
    let source = source(package, target, module)?;
    let text = fs::read_to_string(&source)
        .with_context(|| format!("{MATRIX}: {entry:?} is not in {}", source.display()))?;
    let found = functions(&text);
    let found: Vec<&str> = found
        .into_iter()
        .filter(|function| name == ALL || *function == name)
        .collect();
    if found.is_empty() {
        bail!("{MATRIX}: {entry:?} is no test of {}", source.display());
    }
    let test = |function: &str| Test {
        package: (*package).to_owned(),
        target: (*target).to_owned(),
        path: match module {
            "" => function.to_owned(),
            module => format!("{module}::{function}"),
        },
    };
    Ok(found.into_iter().map(test).collect())
}

/// The file of a module.
fn source(package: &str, target: &str, module: &str) -> Result<PathBuf> {
    let folder = match package {
        "usher-tests" => "tests",
        "usher-core" => "agent/core",
        "usher-sys" => "agent/sys",
        "usher-agent" => "agent",
        other => bail!("{MATRIX}: no package {other}"),
    };
    let folder = root().join(folder);
    let below = match target {
        "lib" => folder.join("src"),
        target => folder.join("tests").join(target),
    };
    Ok(match (target, module) {
        ("lib", module) => below.join(format!("{}.rs", module.replace("::", "/"))),
        // A program of one file, or of a directory.
        (_, "") if below.is_dir() => below.join("main.rs"),
        (_, "") => below.with_extension("rs"),
        (_, module) => below.join(format!("{}.rs", module.replace("::", "/"))),
    })
}

/// The names of the functions that are tests.
fn functions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_before, rest)) = line.split_once("fn ")
            && is_test
        {
            found.extend(rest.split('(').next());
            is_test = false;
        }
    }
    found
}

/// The matrix for the page: a row for each fault, a line in it for each program.
pub(crate) fn table() -> Result<String> {
    let results = Results::kept()?;
    let mut text =
        "| fault | what happens | tests | result |\n| --- | --- | --- | --- |\n".to_owned();
    for row in rows()? {
        let mut tests = Vec::new();
        for entry in &row.tests {
            tests.extend(named(entry)?);
        }
        let mut lines: BTreeMap<(String, String), Vec<&Test>> = BTreeMap::new();
        for test in &tests {
            let key = (test.package.clone(), test.target.clone());
            lines.entry(key).or_default().push(test);
        }
        let told: Vec<String> = lines
            .iter()
            .map(|((package, target), of)| {
                let names: Vec<String> = of.iter().map(|test| format!("`{}`", test.path)).collect();
                format!("{package} {target}: {}", names.join(", "))
            })
            .collect();
        text += &format!(
            "| {} | {} | {} | {} |\n",
            row.fault,
            row.expected,
            told.join("; "),
            results.of(&tests)
        );
    }
    text += &format!("\nKernel of the run: {}.", results.kernel);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has to be there: a word of each fault that was ever asked for.
    const ASKED: [&str; 24] = [
        "any kind of action",
        "while connections wait",
        "while starts wait",
        "absent at an exit",
        "containerd",
        "kubelet",
        "API server",
        "clock jumps",
        "full disk",
        "inotify queue",
        "watches exhausted",
        "ENOBUFS",
        "EMFILE",
        "memory limit",
        "/proc slow",
        "CPU starvation",
        "sidecar hangs",
        "hundreds of pods",
        "pid, sandbox or pod",
        "kernel lacks",
        "CNI configuration",
        "agent removed",
        "malformed input",
        "configuration broken",
    ];

    #[test]
    fn every_fault_has_tests_that_there_are() {
        let rows = rows().unwrap();
        for asked in ASKED {
            let row = rows.iter().find(|row| row.fault.contains(asked));
            let row = row.unwrap_or_else(|| panic!("no row about {asked}"));
            assert!(!row.tests.is_empty(), "{asked}");
        }
        assert!(tests().unwrap().len() > ASKED.len());
        for wrong in [
            "usher-tests faults restart::nobody",
            "usher-tests faults nowhere::*",
            "usher-tests faults",
        ] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
