//! `cargo xtask reliability`: the fault matrix, with the results of a run.
//!
//! `tests/faults.yaml` lists the tests of each fault. This task runs them, or reads the output of a run, and writes the
//! results to `tests/faults-results.json`. `cargo xtask docs` makes docs/reliability.md from both files.

mod matrix;
mod results;

use std::{fs, path::PathBuf, process::Stdio};

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use usher_cluster::progress::say;

use self::results::Results;
use crate::{docs, workspace::cargo};

pub(crate) use matrix::{ALL, functions, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run nothing; read the results from the output of earlier runs, as of `cargo xtask test`
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    package: String,
    /// `lib`, or the name of a test program.
    target: String,
    path: String,
}

impl Test {
    /// The key of the test in the results.
    fn name(&self) -> String {
        format!("{} {} {}", self.package, self.target, self.path)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tests = matrix::tests()?;
    let mut results = Results::load()?;
    let kernel = uname().context("read the kernel's release")?;
    results.kernel = kernel.release().display().to_string();
    let mut found = 0;
    if args.from.is_empty() {
        for (package, target) in matrix::targets_without_cluster(&tests) {
            found += results.read(&output(&package, &target, &tests)?);
        }
    }
    for path in &args.from {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        found += results.read(&String::from_utf8_lossy(&bytes));
    }
    results.retain(&tests);
    results.save()?;
    say(&format!(
        "{found} results; of {} tests in the matrix: {}",
        tests.len(),
        results.counts(&tests)
    ));
    docs::write()
}

/// The output of the tests of one target. A failed test is not an error.
fn output(package: &str, target: &str, tests: &[Test]) -> Result<String> {
    // Selects all packages, as `cargo xtask test` does, so that cargo builds nothing again. No other package has tests
    // of these names.
    let mut command = cargo(["test", "--workspace"]);
    match target {
        "lib" => command.arg("--lib"),
        target => command.args(["--test", target]),
    };
    let paths = tests
        .iter()
        .filter(|test| test.package == package && test.target == target)
        .map(|test| &test.path);
    say(&format!("{package} {target}"));
    let output = command
        .args(["--", "--exact"])
        .args(paths)
        .env("CI", "true")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("test {package} {target}"))?;
    let heading = results::heading(package, target);
    Ok(format!(
        "{heading}\n{}",
        String::from_utf8_lossy(&output.stdout)
    ))
}
