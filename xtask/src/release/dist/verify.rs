//! Checks that another build gives the same programs: from a copy of the sources in another folder, with another target
//! directory.

use std::path::Path;

use anyhow::{Result, ensure};
use usher_cluster::progress::say;

use super::build::{Architecture, Programs};
use crate::{
    file,
    workspace::{files, root, target_dir},
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
        compare(one, other)?;
    }
    say(&format!(
        "{}: a build from another folder gave the same programs",
        architecture.name()
    ));
    Ok(())
}

fn compare(one: &Path, other: &Path) -> Result<()> {
    let (left, right) = (file::read_bytes(one)?, file::read_bytes(other)?);
    let same = left
        .iter()
        .zip(&right)
        .take_while(|(left, right)| left == right)
        .count();
    ensure!(
        left == right,
        "{}: {} and {} bytes, first difference at byte {same}",
        one.display(),
        left.len(),
        right.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn difference_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (one, same) = (write("one", "abc"), write("same", "abc"));
        let (other, longer) = (write("other", "abd"), write("longer", "abcd"));
        compare(&one, &same).unwrap();
        let text = compare(&one, &other).unwrap_err().to_string();
        assert!(text.ends_with("first difference at byte 2"), "{text}");
        assert!(compare(&one, &longer).is_err());
    }
}
