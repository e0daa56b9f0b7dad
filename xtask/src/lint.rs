//! `cargo xtask lint`: what can be said about the tree without running it.

mod policy;
mod rule;

use std::process::Command;

use anyhow::{Result, bail};
use usher_cluster::progress::say;

use crate::{
    chart, docs,
    step::Steps,
    workspace::{cargo, run as run_command},
};

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::keep_going("lint");
    self::steps(&mut steps);
    steps.finish()
}

/// The steps of lint, the quick ones first.
pub(crate) fn steps(steps: &mut Steps) {
    steps.run("format", || {
        run_command(&mut cargo(["fmt", "--all", "--", "--check"]))
    });
    steps.run("rules of this repository", rules);
    steps.run("generated documentation", docs::check);
    steps.run("chart", chart::check);
    steps.run("policy for dependencies", policy::check);
    steps.run("clippy", || {
        run_command(&mut cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    });
    steps.run("documentation", || run_command(&mut documentation()));
}

fn documentation() -> Command {
    let mut doc = cargo([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    doc
}

fn rules() -> Result<()> {
    let found = rule::check()?;
    for finding in &found {
        say(&finding.to_string());
    }
    let broken = found.iter().filter(|finding| finding.is_error).count();
    if broken > 0 {
        bail!("{broken} violations of this repository's rules");
    }
    Ok(())
}
