//! The policy for dependencies in `deny.toml`, checked by cargo-deny without the network.
//!
//! Advisories change without the tree and need the network: `cargo deny check advisories`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use usher_cluster::{
    cache, programs,
    progress::{output, run_logged, say},
};

use crate::workspace::{cargo, root, run};

const VERSION: &str = "0.20.2";
/// A package with a lock file of its own, which only the fuzz step of the tests builds.
const FUZZ: &str = "tests/fuzz/Cargo.toml";

pub(super) fn check() -> Result<()> {
    let mut metadata = cargo(["metadata", "--locked", "--format-version=1"]);
    let metadata = metadata.args(["--manifest-path", FUZZ]);
    output(metadata).with_context(|| {
        format!("its lock file is outdated; cargo metadata --manifest-path {FUZZ} updates it")
    })?;
    let deny = program()?;
    let checks = "--offline check bans licenses sources";
    run(Command::new(deny)
        .current_dir(root())
        .args(checks.split(' ')))
}

/// cargo-deny of this version: uses an installed one, or builds it once.
fn program() -> Result<PathBuf> {
    let place = cache::root()?.join("tools");
    let own = place.join("bin/cargo-deny");
    let installed = [programs::find("cargo-deny"), Some(own.clone())];
    if let Some(found) = installed.into_iter().flatten().find(|path| is_ours(path)) {
        return Ok(found);
    }
    say(&format!(
        "Building cargo-deny {VERSION}: about a minute on two cores, once"
    ));
    let mut install = cargo(["install", "cargo-deny", "--locked", "--version", VERSION]);
    // cargo-deny reads one lock file, so optimisation would cost more time than it saves.
    install
        .arg("--debug")
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    install.arg("--root").arg(&place);
    run_logged("cargo-deny", &mut install, &place.with_extension("log"))?;
    Ok(own)
}

fn is_ours(program: &Path) -> bool {
    output(Command::new(program).arg("--version"))
        .is_ok_and(|answer| answer.trim() == format!("cargo-deny {VERSION}"))
}
