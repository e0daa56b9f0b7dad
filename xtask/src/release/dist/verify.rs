//! Whether the programs are the same when somebody else builds them: from a copy of the sources in another folder, into
//! another target directory.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use usher_cluster::progress::{output, say};

use super::build::{self, Architecture};
use crate::workspace::root;

/// The copy. Removed on drop.
struct Copy(PathBuf);

impl Copy {
    /// What git has or would take, as it is now.
    fn new() -> Result<Self> {
        let folder = env::temp_dir().join(format!("usher-dist-{}/elsewhere", std::process::id()));
        let copy = Self(folder);
        let listed = output(
            Command::new("git")
                .current_dir(root())
                .args(["ls-files", "-z"])
                .args(["--cached", "--others", "--exclude-standard"]),
        )?;
        for name in listed.split_terminator('\0') {
            let (from, to) = (root().join(name), copy.0.join("source").join(name));
            // Removed, and git was not told yet.
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
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What cannot be removed is in a folder for temporary things.
        drop(fs::remove_dir_all(self.0.parent().unwrap_or(&self.0)));
    }
}

/// Builds once more and compares.
pub(super) fn same(programs: &[PathBuf], architecture: Architecture) -> Result<()> {
    let copy = Copy::new()?;
    let source = copy.0.join("source");
    let again = build::programs(&source, &copy.0.join("target"), architecture)?;
    compare(programs, &again)?;
    say(&format!(
        "{}: another build, from another folder, gave the same {} programs",
        architecture.name(),
        programs.len()
    ));
    Ok(())
}

fn compare(programs: &[PathBuf], again: &[PathBuf]) -> Result<()> {
    let (first, second) = (build::digests(programs)?, build::digests(again)?);
    for (name, digest) in &first {
        say(&format!("{digest}  {name}"));
    }
    if first == second {
        return Ok(());
    }
    for (one, other) in programs.iter().zip(again) {
        if let Some(difference) = difference(one, other)? {
            say(&difference);
        }
    }
    bail!("another build gave other programs")
}

fn difference(one: &Path, other: &Path) -> Result<Option<String>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    let (left, right) = (read(one)?, read(other)?);
    let at = left
        .iter()
        .zip(&right)
        .position(|(left, right)| left != right);
    let name = one.file_name().unwrap_or_default().display();
    let lengths = format!("{} and {} bytes", left.len(), right.len());
    Ok(match at {
        None if left.len() == right.len() => None,
        None => Some(format!("{name}: {lengths}")),
        Some(at) => Some(format!("{name}: {lengths}, first difference at byte {at}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (one, same) = (write("one", "abc"), write("same", "abc"));
        let (other, longer) = (write("other", "abd"), write("longer", "abcd"));
        assert_eq!(difference(&one, &same).unwrap(), None);
        let text = difference(&one, &other).unwrap().unwrap();
        assert!(text.ends_with("first difference at byte 2"), "{text}");
        assert!(difference(&one, &longer).unwrap().is_some());
        let same = std::slice::from_ref(&one);
        compare(same, same).unwrap();
        assert!(compare(&[one], &[other]).is_err());
    }
}
