//! `cargo xtask lint`: checks of the source tree that run no program of usher.

mod exit_path;
mod finding;
mod imports;
mod links;
mod named_tests;
mod packages;
mod policy;
mod report;
mod rust_file;
mod shape;
mod source;
mod text;

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use usher_cluster::{
    programs,
    progress::{output, say},
};

use self::{finding::Finding, source::Source};
use crate::{
    docs,
    list::List,
    release::chart,
    step::Steps,
    workspace::{cargo, files, root, run as run_command},
};

static RULES: List = List(include_str!("lint/rules.list"));
const RULES_PATH: &str = "xtask/src/lint/rules.list";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the rules of this repository and the table of packages; takes a few seconds
    #[arg(long)]
    rules: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.rules {
        return rules();
    }
    let mut steps = Steps::keep_going("lint");
    quick_steps(&mut steps);
    steps.run("rustdoc", documentation);
    steps.finish()
}

/// All steps except rustdoc, the quick ones first.
pub(crate) fn quick_steps(steps: &mut Steps) {
    steps.run("format", || {
        run_command(&mut cargo(["fmt", "--all", "--", "--check"]))?;
        go_format()
    });
    steps.run("rules of this repository", rules);
    steps.run("generated documentation", docs::check);
    steps.run("chart", chart::check);
    steps.run("workflows", workflows);
    steps.run("policy for dependencies", policy::check);
    steps.run("clippy", || {
        let clippy = "clippy --workspace --all-targets -- -D warnings";
        run_command(&mut cargo(clippy.split(' ')))
    });
}

fn go_format() -> Result<()> {
    let mut files = files(root())?;
    files.retain(|path| path.ends_with(".go"));
    if files.is_empty() {
        return Ok(());
    }
    let unformatted = output(
        Command::new("gofmt")
            .current_dir(root())
            .arg("-l")
            .args(files),
    )
    .context("gofmt, which comes with Go")?;
    ensure!(unformatted.is_empty(), "run gofmt -w on:\n{unformatted}");
    Ok(())
}

/// Checks `.github/workflows`. shellcheck and pyflakes are off: the result would depend on whether they are installed.
fn workflows() -> Result<()> {
    let mut lint = Command::new(programs::actionlint()?);
    lint.current_dir(root())
        .args(["-no-color", "-shellcheck=", "-pyflakes="]);
    run_command(&mut lint)
}

pub(crate) fn documentation() -> Result<()> {
    let doc = "doc --workspace --no-deps --document-private-items";
    let mut doc = cargo(doc.split(' '));
    run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn rules() -> Result<()> {
    let mut sources = source::all(root())?;
    sources.retain(|source| source.path != RULES_PATH);
    let mut found: Vec<Finding> = sources.iter().flat_map(of_file).collect();
    found.extend(shape::folders(&sources));
    let exists = |path: &Path| root().join(path).exists();
    found.extend(links::check(&sources, exists));
    found.extend(named_tests::check(&sources, exists));
    found.extend(packages::check()?);
    found.extend(exit_path::check()?);
    found.extend(report::check()?);
    found.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    for finding in &found {
        say(&finding.to_string());
    }
    let broken = found.iter().filter(|finding| finding.is_error).count();
    ensure!(
        broken == 0,
        "{broken} violations of this repository's rules"
    );
    Ok(())
}

fn of_file(source: &Source) -> Vec<Finding> {
    let rules = [
        shape::length,
        shape::names,
        text::machine_paths,
        text::registries,
        text::unfinished,
        text::processes,
        text::words,
    ];
    rules.iter().flat_map(|rule| rule(source)).collect()
}
