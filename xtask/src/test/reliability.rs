//! `cargo xtask reliability`: the fault matrix, with the results of a run.
//!
//! `tests/faults.yaml` says which tests belong to which fault. This runs them, or reads what a run printed, and keeps
//! the results in `tests/faults-results.json`; `docs/reliability.md` is written from both (`cargo xtask docs`).

mod matrix;
mod outcome;

use std::{fs, path::PathBuf, process::Stdio};

use anyhow::{Context, Result};
use nix::sys::utsname::uname;
use usher_cluster::progress::say;

use self::outcome::Results;
use crate::{
    docs,
    workspace::{cargo, root},
};

pub(crate) use matrix::table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run nothing; take the results from what runs printed, as of `cargo xtask test`
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
    /// Its key in the results.
    fn name(&self) -> String {
        format!("{} {} {}", self.package, self.target, self.path)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut texts = Vec::new();
    for path in &args.from {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let tests = matrix::tests()?;
    if texts.is_empty() {
        for (package, target) in matrix::targets_without_cluster(&tests) {
            texts.push(printed(&package, &target, &tests)?);
        }
    }
    let mut results = Results::kept()?;
    results.kernel = uname()
        .context("ask for the kernel")?
        .release()
        .display()
        .to_string();
    let mut found = 0;
    for text in &texts {
        found += results.take(text);
    }
    results.retain(&tests);
    results.keep()?;
    say(&format!("{found} results; {}", results.summary(&tests)));
    docs::write()
}

/// What the tests of one target print. A failure is a result.
fn printed(package: &str, target: &str, tests: &[Test]) -> Result<String> {
    // All packages, as in `cargo xtask test`: a selection would have other features, and build everything again. No
    // other package has tests of these names.
    let mut command = cargo(["test", "--workspace"]);
    match target {
        "lib" => command.arg("--lib"),
        target => command.args(["--test", target]),
    };
    let of_target = tests
        .iter()
        .filter(|test| test.package == package && test.target == target);
    command.args(["--", "--exact"]);
    command.args(of_target.map(|test| &test.path));
    say(&format!("{package} {target}"));
    let output = command
        .current_dir(root())
        .env("CI", "true")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("test {package} {target}"))?;
    let heading = outcome::heading(package, target);
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(format!("{heading}\n{said}"))
}
