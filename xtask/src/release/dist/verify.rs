//! Checks that another build gives the same programs: from a copy of the sources in another folder, with another target
//! directory.

use std::process::Command;

use anyhow::Result;
use usher_cluster::progress::say;

use super::build::{Architecture, Programs};
use crate::{
    file,
    workspace::{files, root, run, target_dir},
};

/// Builds again and compares.
pub(super) fn verify(programs: &Programs, architecture: Architecture) -> Result<()> {
    let copy = target_dir().join("dist-verify");
    file::renew_folder(&copy)?;
    let source = copy.join("elsewhere/source");
    for name in files(root())? {
        file::copy(root().join(&name), source.join(name))?;
    }
    let again = Programs::build(&source, &copy.join("target"), architecture)?;
    for (one, other) in programs.paths().zip(again.paths()) {
        run(Command::new("cmp").args([one, other]))?;
    }
    say(&format!(
        "{}: a build from another folder gave the same programs",
        architecture.name()
    ));
    Ok(())
}
