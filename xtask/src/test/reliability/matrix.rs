//! The faults, the expected behavior, and the tests that prove it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::{Test, results::Results};
use crate::{docs::markdown, file, test::TARGETS, workspace::root};

const FILE: &str = "tests/faults.yaml";
/// All tests of a module.
pub(crate) const ALL: &str = "*";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    fault: String,
    expected: String,
    tests: Vec<String>,
}

fn rows() -> Result<Vec<Row>> {
    serde_saphyr::from_str(&file::read(FILE)?).with_context(|| format!("parse {FILE}"))
}

/// All tests of the matrix, once each.
pub(super) fn tests() -> Result<Vec<Test>> {
    let mut found = BTreeSet::new();
    for entry in rows()?.iter().flat_map(|row| &row.tests) {
        found.extend(named(entry)?);
    }
    Ok(found.into_iter().collect())
}

pub(super) fn targets_without_cluster(tests: &[Test]) -> BTreeSet<(String, String)> {
    tests
        .iter()
        .filter(|test| !TARGETS.contains(&test.target.as_str()))
        .map(|test| (test.package.clone(), test.target.clone()))
        .collect()
}

/// The tests of an entry, which must be in the source.
fn named(entry: &str) -> Result<Vec<Test>> {
    let words: Vec<&str> = entry.split(' ').collect();
    let [package, target, path] = words[..] else {
        bail!("{FILE}: {entry:?} is not PACKAGE TARGET PATH");
    };
    let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
    let source = source(package, target, module)?;
    let text = file::read(&source).with_context(|| format!("{FILE}: {entry:?}"))?;
    let found: Vec<Test> = functions(&text)
        .into_iter()
        .filter(|function| name == ALL || *function == name)
        .map(|function| Test {
            package: package.to_owned(),
            target: target.to_owned(),
            path: match module {
                "" => function.to_owned(),
                module => format!("{module}::{function}"),
            },
        })
        .collect();
    ensure!(
        !found.is_empty(),
        "{FILE}: {entry:?} is not a test of {}",
        source.display()
    );
    Ok(found)
}

/// The file of a module.
fn source(package: &str, target: &str, module: &str) -> Result<PathBuf> {
    let folder = match package.strip_prefix("usher-") {
        Some("tests") => root().join("tests"),
        Some("agent") => root().join("agent"),
        Some(other) => root().join("agent").join(other),
        None => bail!("{FILE}: unknown package {package}"),
    };
    let below = match target {
        "lib" => folder.join("src"),
        target => folder.join("tests").join(target),
    };
    Ok(match module {
        "" if target != "lib" && !below.is_dir() => below.with_extension("rs"),
        "" => below.join("main.rs"),
        module => below.join(format!("{}.rs", module.replace("::", "/"))),
    })
}

/// The names of the functions that are tests.
pub(crate) fn functions(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ")
            && is_test
        {
            found.extend(rest.split('(').next());
            is_test = false;
        }
    }
    found
}

/// The matrix for the page: a row for each fault, with its tests by program.
pub(crate) fn table() -> Result<String> {
    let results = Results::load()?;
    let mut cells = Vec::new();
    for row in rows()? {
        let mut tests = Vec::new();
        for entry in &row.tests {
            tests.extend(named(entry)?);
        }
        let mut programs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for test in &tests {
            let program = format!("{} {}", test.package, test.target);
            let paths = programs.entry(program).or_default();
            paths.push(format!("`{}`", test.path));
        }
        let programs: Vec<String> = programs
            .iter()
            .map(|(program, paths)| format!("{program}: {}", paths.join(", ")))
            .collect();
        let counts = results.counts(&tests);
        cells.push([row.fault, row.expected, programs.join("; "), counts]);
    }
    let table = markdown::table(["fault", "what happens", "tests", "result"], &cells);
    Ok(format!("{table}\nKernel of the run: {}.", results.kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word of each fault that the matrix must have.
    const REQUIRED: [&str; 24] = [
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
        "usher uninstalled",
        "malformed input",
        "deleted configuration",
    ];

    #[test]
    fn every_fault_has_existing_tests() {
        let rows = rows().unwrap();
        for word in REQUIRED {
            let row = rows.iter().find(|row| row.fault.contains(word));
            let row = row.unwrap_or_else(|| panic!("no row about {word}"));
            assert!(!row.tests.is_empty(), "{word}");
        }
        assert!(tests().unwrap().len() > REQUIRED.len());
        for wrong in [
            "usher-tests faults restart::missing",
            "usher-tests faults nowhere::*",
            "usher-tests faults",
        ] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
