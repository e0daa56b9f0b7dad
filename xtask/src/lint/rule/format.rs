//! Go files are formatted, as Rust files are.

use std::process::Command;

use anyhow::{Context, Result};
use usher_cluster::progress::output;

use super::Finding;
use crate::workspace::root;

/// The Go files among `paths` that gofmt would change.
pub(super) fn unformatted(paths: &[String]) -> Result<Vec<Finding>> {
    let go: Vec<&String> = paths.iter().filter(|path| path.ends_with(".go")).collect();
    if go.is_empty() {
        return Ok(Vec::new());
    }
    let listed = output(Command::new("gofmt").current_dir(root()).arg("-l").args(go))
        .context("gofmt, which comes with Go")?;
    let finding = |path| Finding::error(path, 1, "gofmt", "not formatted: gofmt -w");
    Ok(listed.lines().map(finding).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn unformatted_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let bad = file("bad.go", "package a\nfunc  b( ) {}\n");
        let good = file("good.go", "package a\n\nfunc b() {}\n");
        let found = unformatted(&[bad.clone(), good, "a.rs".to_owned()]).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].path, found[0].rule), (&bad, "gofmt"));
    }
}
