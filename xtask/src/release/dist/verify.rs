//! Checks that another build gives the same programs: from a copy of the sources in another folder, with another target
//! directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context, Result, ensure};
use usher_cluster::progress::{output, say};

use super::build::{Architecture, Programs};
use crate::workspace::root;

/// A copy of the working tree. Removed on drop.
struct Copy(PathBuf);

impl Copy {
    /// Copies the working tree: all files that git tracks or would add.
    fn new() -> Result<Self> {
        let copy = Self(env::temp_dir().join(format!("usher-dist-{}", process::id())));
        let listed = output(
            Command::new("git")
                .current_dir(root())
                .args(["ls-files", "-z"])
                .args(["--cached", "--others", "--exclude-standard"]),
        )?;
        for name in listed.split_terminator('\0') {
            let (from, to) = (root().join(name), copy.source().join(name));
            // The file was deleted, but the deletion is not committed.
            if !from.is_file() {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)
                    .with_context(|| format!("create {}", parent.display()))?;
            }
            fs::copy(&from, &to).with_context(|| format!("copy to {}", to.display()))?;
        }
        Ok(copy)
    }

    fn source(&self) -> PathBuf {
        self.0.join("elsewhere/source")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // On an error, the rest stays in a temporary folder.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Builds again and compares.
pub(super) fn verify(programs: &Programs, architecture: Architecture) -> Result<()> {
    let copy = Copy::new()?;
    let again = Programs::build(&copy.source(), &copy.0.join("target"), architecture)?;
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
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    let (left, right) = (read(one)?, read(other)?);
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
