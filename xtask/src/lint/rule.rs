//! The rules of this repository that no other tool knows.
//!
//! They look at every file that git has or would take, as text; where a rule is about code, comments and tests are told
//! apart by simple means that fit how this repository is formatted.

mod code;
mod format;
mod graph;
mod shape;
mod source;
mod text;

use std::{fmt, fs, path::Path, process::Command};

use anyhow::{Context, Result};
use usher_cluster::progress::output;

use self::source::Source;
use crate::workspace::root;

/// One place that breaks a rule, or comes near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
    pub(super) is_error: bool,
}

impl Finding {
    fn error(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            message: message.into(),
            is_error: true,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.is_error { "error" } else { "warning" };
        write!(
            f,
            "{}:{}: {severity}: {} [{}]",
            self.path, self.line, self.message, self.rule
        )
    }
}

/// Everything that breaks a rule, by file and line.
pub(super) fn check() -> Result<Vec<Finding>> {
    let paths = files(root())?;
    let mut found = Vec::new();
    for path in &paths {
        let full = root().join(path);
        let content = fs::read(&full).with_context(|| format!("read {}", full.display()))?;
        // What is not text has no lines to judge.
        if let Ok(text) = String::from_utf8(content) {
            found.extend(of_file(&Source::new(path, &text)));
        }
    }
    found.extend(format::unformatted(&paths)?);
    found.extend(graph::check()?);
    found.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
    Ok(found)
}

fn of_file(source: &Source) -> Vec<Finding> {
    let rules = [
        shape::length,
        shape::names,
        text::machine_paths,
        text::registries,
        text::unfinished,
        code::processes,
        code::namespaces,
    ];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

/// What git has or would take, where it still is.
fn files(top: &Path) -> Result<Vec<String>> {
    let listed = output(
        Command::new("git")
            .current_dir(top)
            .args(["ls-files", "-z"])
            .args(["--cached", "--others", "--exclude-standard"]),
    )
    .context("list the files of the repository")?;
    let is_file = |path: &&str| top.join(path).is_file();
    Ok(listed
        .split_terminator('\0')
        .filter(is_file)
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_names_place_and_rule() {
        let finding = Finding::error("agent/src/a.rs", 7, "setns", "not here");
        assert_eq!(
            finding.to_string(),
            "agent/src/a.rs:7: error: not here [setns]"
        );
    }

    #[test]
    fn new_files_count_before_they_are_added() {
        let place = tempfile::tempdir().unwrap();
        let begun = Command::new("git")
            .current_dir(&place)
            .args(["init", "--quiet"])
            .status();
        assert!(begun.unwrap().success());
        for (file, text) in [(".gitignore", "built"), ("built", ""), ("new.rs", "")] {
            fs::write(place.path().join(file), text).unwrap();
        }
        assert_eq!(files(place.path()).unwrap(), [".gitignore", "new.rs"]);
    }
}
